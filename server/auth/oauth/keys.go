package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/server/auth/idp"
)

const (
	// mostKeys bounds what is read of a set of keys, in bytes.
	mostKeys = 1 << 20
	// loadTime bounds one try.
	loadTime = 10 * time.Second
)

// keys are the provider's public keys.
type keys struct {
	from  Settings
	log   *slog.Logger
	set   atomic.Pointer[jose.JSONWebKeySet]
	first chan struct{} // closed when loading was tried once
	poke  chan struct{} // somebody misses a key
}

func newKeys(from Settings, log *slog.Logger) *keys {
	return &keys{from: from, log: log, first: make(chan struct{}), poke: make(chan struct{}, 1)}
}

// run keeps the keys fresh until ctx ends. Each try that fails is followed by another, after a
// pause that doubles; a key that is missed is looked for once in a longest pause.
func (k *keys) run(ctx context.Context) {
	tried := sync.OnceFunc(func() { close(k.first) })
	defer tried()
	pause, last := k.from.Backoff, time.Time{}
	for ctx.Err() == nil {
		wait := k.from.Refresh
		err := k.load(ctx)
		last = time.Now()
		if err != nil && ctx.Err() == nil {
			k.log.Error("the keys by which tokens are signed could not be loaded", "from", k.name(), "err", err)
			wait, pause = pause, min(2*pause, k.from.MaxBackoff)
		} else {
			pause = k.from.Backoff
		}
		tried()
		k.sleep(ctx, wait, last)
	}
}

func (k *keys) sleep(ctx context.Context, wait time.Duration, last time.Time) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-k.poke:
		soon := time.NewTimer(time.Until(last.Add(k.from.MaxBackoff)))
		defer soon.Stop()
		select {
		case <-soon.C:
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// load replaces the keys by those that there are now. What cannot be read leaves the old ones.
func (k *keys) load(ctx context.Context) error {
	raw, err := k.read(ctx)
	if err != nil {
		return err
	}
	var all struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return fmt.Errorf("no set of keys: %w", err)
	}
	var set jose.JSONWebKeySet
	for _, one := range all.Keys {
		var key jose.JSONWebKey
		// A key of a kind that is not known is another's.
		if json.Unmarshal(one, &key) == nil && key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			set.Keys = append(set.Keys, key)
		}
	}
	if len(set.Keys) == 0 {
		return errors.New("there is no public key for signatures")
	}
	k.set.Store(&set)
	return nil
}

// name is how the log calls the provider.
func (k *keys) name() string {
	u, err := idp.ParseURL(k.from.URL)
	if err != nil {
		return "an URL that is none"
	}
	return idp.Name(u)
}

func (k *keys) read(ctx context.Context) ([]byte, error) {
	u, err := idp.ParseURL(k.from.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		d, err := substrate.OpenDir(filepath.Dir(u.Path))
		if err != nil {
			return nil, err
		}
		return (&substrate.Volume{FS: d}).ReadFile(filepath.Base(u.Path))
	}
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.from.URL, nil)
	if err != nil {
		return nil, err
	}
	from := idp.Client{Connect: loadTime, Total: loadTime, Redirects: true}
	if u.Scheme == "https" {
		from.TLS = k.from.TLS
	}
	client, done, err := from.Open()
	if err != nil {
		return nil, err
	}
	defer done()
	resp, err := client.Do(req)
	var failed *url.Error // which has the URL
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, mostKeys+1))
	if err == nil && len(raw) > mostKeys {
		err = fmt.Errorf("more than %d bytes", mostKeys)
	}
	return raw, err
}

// named are the keys of an ID, or all where a token names none. Where there are none of that
// ID, they are looked for.
func (k *keys) named(id string) []jose.JSONWebKey {
	<-k.first
	set := k.set.Load()
	if set == nil {
		return nil
	}
	if id == "" {
		return set.Keys
	}
	found := set.Key(id)
	if len(found) == 0 {
		select {
		case k.poke <- struct{}{}:
		default:
		}
	}
	return found
}
