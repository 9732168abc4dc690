package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	patience = 3 * time.Minute        // until the API answers, on a machine with other work
	pause    = 100 * time.Millisecond // between two looks
)

// await returns when the API server says that it is ready and the namespace that everybody
// takes for granted is there.
func (p *Plane) await(ctx context.Context) error {
	client, err := p.Client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the API server has not answered within %s", patience))
	defer cancel()
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		for err := get(ctx, client, p.URL()+path); err != nil; err = get(ctx, client, p.URL()+path) {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return fmt.Errorf("%w; it said last: %w", context.Cause(ctx), err)
			}
		}
	}
	return nil
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // without it the error says less
		return fmt.Errorf("%s: %s %s", url, resp.Status, body)
	}
	return nil
}

// Client is the administrator's.
func (p *Plane) Client() (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(p.authority.File("admin.crt"), p.authority.File("admin.key"))
	if err != nil {
		return nil, err
	}
	ca, err := p.authority.Read("ca.crt")
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool},
	}}, nil
}

// WriteKubeconfig writes a kubeconfig that needs no other file, for the holder of a
// certificate of the authority's.
func (p *Plane) WriteKubeconfig(file, holder string) error {
	data := map[string][]byte{} // JSON encodes bytes in base64, as the format has them
	for _, name := range []string{"ca.crt", holder + ".crt", holder + ".key"} {
		b, err := p.authority.Read(name)
		if err != nil {
			return err
		}
		data[name] = b
	}
	type object = map[string]any
	b, err := json.MarshalIndent(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "kaas",
		"clusters": []object{{"name": "kaas", "cluster": object{"server": p.URL(), "certificate-authority-data": data["ca.crt"]}}},
		"users": []object{{"name": holder, "user": object{
			"client-certificate-data": data[holder+".crt"], "client-key-data": data[holder+".key"]}}},
		"contexts": []object{{"name": "kaas", "context": object{"cluster": "kaas", "user": holder}}},
	}, "", "  ")
	if err != nil {
		return err
	}
	fresh := file + ".new"
	if err := os.WriteFile(fresh, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, file)
}
