package server

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// atOnce is how many topics of one request are made or deleted at a time.
const atOnce = 16

// inParallel calls f for 0 to n-1, a few at a time, and returns when all are done.
// A panic of one is the caller's panic then, so that it costs one connection.
func inParallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	var once sync.Once
	var panicked any
	places := make(chan struct{}, atOnce)
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			defer func() {
				if v := recover(); v != nil {
					once.Do(func() { panicked = fmt.Sprintf("%v\n%s", v, debug.Stack()) })
				}
			}()
			f(i)
		})
	}
	wg.Wait()
	if panicked != nil {
		panic(panicked)
	}
}
