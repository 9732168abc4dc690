package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	patience = 5 * time.Minute // with each step of coming up, on a machine with other work
	pause    = 200 * time.Millisecond
)

// api asks the API server, with bodies in JSON.
type api struct {
	client *http.Client
	url    string
}

// statusError is an answer that is not what was asked for.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// is reports whether an error is the answer with this code.
func is(err error, code int) bool {
	var status *statusError
	return errors.As(err, &status) && status.code == code
}

// do sends in, if it is not nil, and reads the answer into out, if it is not nil.
func (a *api) do(ctx context.Context, method, path string, in, out any) error {
	body := io.Reader(http.NoBody)
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return &statusError{resp.StatusCode, fmt.Sprintf("%s %s: %s %s", method, path, resp.Status, b)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}

// create creates what is not there.
func (a *api) create(ctx context.Context, path string, in object) error {
	err := a.do(ctx, http.MethodPost, path, in, nil)
	if is(err, http.StatusConflict) {
		return nil
	}
	return err
}

// until repeats what may fail for a while.
func until(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s for %s", patience, what))
	defer cancel()
	for err := do(ctx); err != nil; err = do(ctx) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		}
	}
	return nil
}
