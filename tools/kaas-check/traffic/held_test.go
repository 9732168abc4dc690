package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// Where nobody answers nothing is held, and nothing is lost.
func TestNothingToHold(t *testing.T) {
	nobody := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody") }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if h, err := New(Env{Seeds: []string{"127.0.0.1:1"}, Dial: nobody}).Hold(ctx, "held"); err == nil || h != nil {
		t.Error(h, err)
	}
}

// What is lost is told; a broker that cannot say is asked again.
func TestWhatIsLost(t *testing.T) {
	for err, want := range map[error]bool{
		kerr.UnknownMemberID: true, kerr.InvalidTxnState: true, fmt.Errorf("%w: 7", errGone): true,
		kerr.NotCoordinator: false, errors.New("EOF"): false,
	} {
		if told(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
		h, ctx, asked := &Held{}, t.Context(), 0
		if !want {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			cancel()
		}
		lost, unknown := h.each(ctx, map[string]func(context.Context) error{"it": func(context.Context) error { asked++; return err }})
		if errors.Is(lost, err) != want || errors.Is(unknown, err) == want || asked != 1 {
			t.Errorf("%v: lost is %v, unknown %v, asked %d times", err, lost, unknown, asked)
		}
	}
}

// Each new term is told of once, and none that somebody has not heard of yet.
func TestReign(t *testing.T) {
	r := &Reign{env: &Env{Log: history.NewRecorder(1, nil)}}
	for _, heard := range []Term{{2, 5}, {2, 5}, {1, 4}, {3, 6}, {2, 5}, {3, 6}, {3, 7}} {
		r.hear(heard)
	}
	var told []string
	for _, op := range r.env.Log.History().Ops {
		if op.Kind == history.Note && op.Outcome == history.Failed {
			told = append(told, op.Text)
		}
	}
	want := "the controller was broker 2 in term 5, and is broker 3 in term 6; the controller was broker 3 in term 6, and is broker 3 in term 7"
	if got := strings.Join(told, "; "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
