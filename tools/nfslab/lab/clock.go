package lab

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Clock is how far the host's clock is ahead of this machine's, and by how much that
// may be wrong. Boot sets the clock, which would be a second or two behind otherwise;
// nothing keeps it right after that. The answer goes by this machine's clocks alone.
func (h *Host) Clock(ctx context.Context) (ahead, within time.Duration, err error) {
	const looks = 8
	within = time.Hour
	for range looks { // the fastest answer is the one that can be least wrong
		a, w, err := h.clock(ctx, http.MethodGet, "")
		if err != nil {
			return 0, 0, err
		}
		if w < within {
			ahead, within = a, w
		}
	}
	return ahead, within, nil
}

// SetClock sets the host's clock to be so far ahead of this machine's, or behind it. A Boot by
// this process sets it likewise, as where a machine's own clock is wrong. Only one call at a
// time may be about one host.
func (h *Host) SetClock(ctx context.Context, ahead time.Duration) error {
	h.mu.Lock()
	h.mu.ahead = ahead
	h.mu.Unlock()
	if err := h.setClock(ctx); err != nil {
		return err
	}
	is, within, err := h.Clock(ctx)
	if off := (is - ahead).Abs(); err == nil && off > within+time.Second { // as far as a host goes wrong by itself
		err = fmt.Errorf("the clock of %s was set to %v ahead, and is %v ahead", h.Name(), ahead, is)
	}
	return err
}

// setClock sets the clock to what SetClock has said last.
func (h *Host) setClock(ctx context.Context) error {
	h.mu.Lock()
	want := h.mu.ahead
	h.mu.Unlock()
	is, _, err := h.Clock(ctx)
	if err == nil {
		_, _, err = h.clock(ctx, http.MethodPost, strconv.FormatInt(int64(want-is), 10))
	}
	return err
}

func (h *Host) clock(ctx context.Context, method, body string) (ahead, within time.Duration, err error) {
	ctx, cancel := h.alive(ctx)
	defer cancel()
	began := time.Now()
	resp, err := h.ask(ctx, method, "/clock", body)
	if err != nil {
		return 0, 0, h.failed(ctx, "clock", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return 0, 0, h.failed(ctx, "clock", err)
	}
	within = time.Since(began) / 2
	ns, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, 0, h.failed(ctx, "clock", fmt.Errorf("%s: %s", resp.Status, text))
	}
	return time.Unix(0, ns).Sub(began.Add(within)), within, nil
}
