package server

import (
	"context"
	"reflect"
	"time"
)

// maxSelect is less than what reflect.Select takes at once.
const maxSelect = 60_000

// waitAny waits until one of changed is closed, and reports false if instead the
// timer fired, stop was closed or ctx ended. It costs no goroutine, however many
// channels there are; those beyond maxSelect are looked at when the timer fires.
func waitAny(ctx context.Context, changed []<-chan struct{}, timer <-chan time.Time, stop <-chan struct{}) bool {
	if len(changed) == 1 {
		select {
		case <-changed[0]:
			return true
		case <-timer:
		case <-stop:
		case <-ctx.Done():
		}
		return false
	}
	changed = changed[:min(len(changed), maxSelect)]
	cases := make([]reflect.SelectCase, 0, len(changed)+3)
	recv := func(ch any) {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ch)})
	}
	recv(timer)
	recv(stop)
	recv(ctx.Done())
	for _, ch := range changed {
		recv(ch)
	}
	chosen, _, _ := reflect.Select(cases)
	return chosen > 2
}
