package substrate

import "context"

// Lane lets a bounded number of its owner's calls run beside who waits for them.
type Lane chan struct{}

// NewLane makes a lane of n places.
func NewLane(n int) Lane { return make(Lane, n) }

// Enter takes a place; [Run] gives it back.
func (l Lane) Enter(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do is Enter and Run. With ctx's error, call may not have run at all.
func Do[T any](ctx context.Context, l Lane, call func() (T, error), late func(T, error)) (T, error) {
	if err := l.Enter(ctx); err != nil {
		var zero T
		return zero, err
	}
	return Run(ctx, l, call, late)
}

// Run runs call, which may hang, in a place that was entered. It returns call's answer,
// or ctx's error while the call stays behind and keeps the place; its answer then goes
// to late, if that is not nil. What call uses, a buffer above all, is its own until it
// has returned. A context that cannot end costs no switch between goroutines.
func Run[T any](ctx context.Context, l Lane, call func() (T, error), late func(T, error)) (T, error) {
	if ctx.Done() == nil {
		defer func() { <-l }()
		return call()
	}
	return Beside(ctx, func(f func()) { go func() { f(); <-l }() }, call, late)
}

// Beside has start run call in a goroutine of start's, and returns call's answer or
// ctx's error, as [Run] does.
func Beside[T any](ctx context.Context, start func(func()), call func() (T, error), late func(T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer) // who has left does not take it
	left := make(chan struct{})
	start(func() {
		v, err := call()
		select {
		case done <- answer{v, err}:
		case <-left:
			if late != nil {
				late(v, err)
			}
		}
	})
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		close(left)
		var zero T
		return zero, ctx.Err()
	}
}
