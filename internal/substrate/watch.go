package substrate

import (
	"context"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watch wakes the returned channel when this host sees something happen in dir. It
// is a hint that only shortens a poll: other hosts' changes raise nothing, and a
// file system that cannot watch never wakes. stop ends it and waits.
func (d *DirFS) Watch(dir string) (wake <-chan struct{}, stop func(), err error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, err
	}
	if err := w.Add(d.path(dir)); err != nil {
		w.Close()
		return nil, nil, err
	}
	ch := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case _, ok := <-w.Events:
				if !ok {
					return
				}
				select {
				case ch <- struct{}{}:
				default:
				}
			case <-w.Errors:
			}
		}
	})
	return ch, func() { cancel(); w.Close(); wg.Wait() }, nil
}
