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
// nothing keeps it right after that.
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

func (h *Host) setClock(ctx context.Context) error {
	ahead, _, err := h.Clock(ctx)
	if err == nil {
		_, _, err = h.clock(ctx, http.MethodPost, strconv.FormatInt(-int64(ahead), 10))
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
