package substrate

import "context"

// Lane lets a bounded number of its owner's calls run beside who waits for them.
type Lane chan struct{}

// NewLane makes a lane of n places.
func NewLane(n int) Lane { return make(Lane, n) }

// Do runs call, which may hang, and returns its answer, or ctx's error while the call
// stays behind and keeps its place in the lane. Its answer then goes to late, if that
// is not nil. What call uses, a buffer above all, is its own until it has returned.
//
// Nobody waits for what stays behind: call itself tells its owner that it runs, if it
// still may, and when it is through. With ctx's error it may not have run at all. A
// context that cannot end costs no switch between goroutines.
func Do[T any](ctx context.Context, lane Lane, call func() (T, error), late func(T, error)) (T, error) {
	var zero T
	select {
	case lane <- struct{}{}:
	default:
		select {
		case lane <- struct{}{}:
		case <-ctx.Done():
			return zero, ctx.Err()
		}
	}
	if ctx.Done() == nil {
		defer func() { <-lane }()
		return call()
	}
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer) // whoever gives up does not take it
	left := make(chan struct{})
	go func() {
		v, err := call()
		<-lane
		select {
		case done <- answer{v, err}:
		case <-left:
			if late != nil {
				late(v, err)
			}
		}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		close(left)
		return zero, ctx.Err()
	}
}
