package kube

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	core "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func balanced(in ...core.LoadBalancerIngress) *core.Service {
	return &core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeLoadBalancer},
		Status: core.ServiceStatus{LoadBalancer: core.LoadBalancerStatus{Ingress: in}}}
}

// An address is waited for through all that may pass, and told of as long, and each thing that
// is in the way is logged once.
func TestAddressIsWaitedFor(t *testing.T) {
	type answer struct {
		service *core.Service
		err     error
	}
	out := errors.New("connection refused")
	for _, tc := range []struct {
		name, want string
		answers    []answer
		reasons    []string
	}{
		{"at once", "192.0.2.7", []answer{{balanced(core.LoadBalancerIngress{IP: "192.0.2.7"}), nil}}, nil},
		{"a name", "a.example", []answer{{balanced(core.LoadBalancerIngress{Hostname: "a.example", IP: "192.0.2.7"}), nil}}, nil},
		{"later", "2001:db8::1", []answer{{nil, out}, {nil, out}, {&core.Service{Spec: core.ServiceSpec{Type: "ClusterIP"}}, nil}, {balanced(), nil},
			{balanced(core.LoadBalancerIngress{}), nil}, {balanced(core.LoadBalancerIngress{}, core.LoadBalancerIngress{IP: "2001:db8::1"}), nil}},
			[]string{"connection refused", "of the type ClusterIP", "no address yet"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				asked := 0
				s := &Services{log: slog.New(slog.NewTextHandler(&log, nil)), get: func(_ context.Context, name string) (*core.Service, error) {
					a := tc.answers[asked]
					asked++
					if name != "s" {
						t.Errorf("asked for %q", name)
					}
					return a.service, a.err
				}}
				var now error
				var told []string
				got, err := s.Address(t.Context(), "s", func(why error) {
					if now = why; why != nil {
						told = append(told, why.Error())
					}
				})
				if got != tc.want || err != nil || now != nil {
					t.Errorf("%q, %v, still waiting for %v", got, err, now)
				}
				told = slices.Compact(told)
				if len(told) != len(tc.reasons) || strings.Count(log.String(), "level=WARN") != len(tc.reasons) {
					t.Errorf("told %q and logged\n%s", told, log.String())
				}
				for i, want := range tc.reasons {
					if i < len(told) && !strings.Contains(told[i], want) {
						t.Errorf("%q does not say %q", told[i], want)
					}
				}
			})
		})
	}
}

// A broker that is stopped meanwhile waits no longer.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Services{log: slog.New(slog.DiscardHandler), get: func(context.Context, string) (*core.Service, error) { return balanced(), nil }}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := s.Address(ctx, "s", func(error) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// The API is asked for the one Service in the one namespace, and for nothing else.
func TestOneServiceIsAskedFor(t *testing.T) {
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Service","spec":{"type":"LoadBalancer"},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}}}`))
	}))
	defer api.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	file := filepath.Join(t.TempDir(), "config")
	text := `{"clusters":[{"name":"c","cluster":{"server":"` + api.URL + `"}}],"contexts":[{"name":"x","context":{"cluster":"c","namespace":"ns"}}],"current-context":"x"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	s, err := NewServices(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Address(t.Context(), "kaas-external-2", func(error) {})
	if got != "192.0.2.9" || err != nil {
		t.Error(got, err)
	}
	api.CloseClientConnections()
	if want := []string{"GET /api/v1/namespaces/ns/services/kaas-external-2"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

func TestNoKubernetes(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := NewServices(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "no Kubernetes here") {
		t.Error(err)
	}
}
