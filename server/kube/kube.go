// Package kube asks Kubernetes for what a broker there cannot know by itself: the address
// that a Service's load balancer was given.
//
// It is asked once, at the start, and as often as it takes: a load balancer may be minutes in
// the making, and whatever keeps the API from answering will pass. Nothing of what is running
// depends on the API.
package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// callTime is how long a call to the API may take.
	callTime = 5 * time.Second
	// askEvery is how long after an answer it is asked again.
	askEvery = 2 * time.Second
)

// Services are those of the namespace that this process runs in, or that the file says which
// KUBECONFIG names.
type Services struct {
	get func(ctx context.Context, name string) (*core.Service, error)
	log *slog.Logger
}

// NewServices calls nobody.
func NewServices(log *slog.Logger) (*Services, error) {
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(os.Getenv("KUBECONFIG"))}
	client := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	config, err := client.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no Kubernetes here, neither around this process nor in KUBECONFIG: %w", err)
	}
	namespace, _, err := client.Namespace()
	if err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	config.Timeout = callTime
	api, err := typed.NewForConfig(rest.AddUserAgent(config, "kaas-broker"))
	if err != nil {
		return nil, err
	}
	return &Services{log: log, get: func(ctx context.Context, name string) (*core.Service, error) {
		return api.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	}}, nil
}

// Address is the name or the IP address of a Service's load balancer. It is waited for, and
// waiting is told what for, and nil at the end. The error is that of ctx.
func (s *Services) Address(ctx context.Context, service string, waiting func(error)) (string, error) {
	defer waiting(nil)
	told := ""
	for {
		host, err := s.address(ctx, service)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err == nil {
			s.log.Info("the load balancer's address is known", "service", service, "address", host)
			return host, nil
		}
		err = fmt.Errorf("service %s: %w", service, err)
		waiting(fmt.Errorf("the broker does not know where its clients reach it: %w", err))
		if why := err.Error(); why != told {
			told = why
			s.log.Warn("waiting for a load balancer's address", "err", err)
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

var errNoAddress = errors.New("its load balancer has no address yet")

func (s *Services) address(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	service, err := s.get(ctx, name)
	if err != nil {
		return "", err
	}
	if service.Spec.Type != core.ServiceTypeLoadBalancer {
		return "", fmt.Errorf("it has no load balancer, but is of the type %s", service.Spec.Type)
	}
	for _, in := range service.Status.LoadBalancer.Ingress {
		switch {
		case in.Hostname != "":
			return in.Hostname, nil
		case in.IP != "":
			return in.IP, nil
		}
	}
	return "", errNoAddress
}
