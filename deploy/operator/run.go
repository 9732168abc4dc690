package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
	"kaas.dev/kaas/deploy/operator/internal/reconcile"
)

func run(ctx context.Context, o *options, log *slog.Logger) error {
	cluster, err := kafka.Dial(kafka.NewConfig(o.bootstrap, o.commandConfig), log)
	if err != nil {
		return err
	}
	defer cluster.Close()
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	base := reconcile.Base{
		Client: mgr.GetClient(), Events: mgr.GetEventRecorder("kaas-operator"), Cluster: cluster, Log: log, Scheme: mgr.GetScheme(),
		Resync: o.resync, MostRetry: o.retry, Workers: o.workers,
	}
	if err := errors.Join(
		(&reconcile.Topics{Base: base}).Start(mgr),
		(&reconcile.Users{Base: base, Self: cluster.User, Reserved: o.reserved, Rewrite: o.rewrite}).Start(mgr),
		reconcile.Count(mgr.GetClient()),
		mgr.Add(everywhere(cluster.Watch)),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", func(req *http.Request) error {
			ctx, cancel := context.WithTimeout(req.Context(), time.Second)
			defer cancel()
			if !mgr.GetCache().WaitForCacheSync(ctx) {
				return errors.New("the resources have not been listed yet")
			}
			return nil
		}),
	); err != nil {
		return err
	}
	log.Info("the operator starts", "brokers", cluster.Seeds(), "namespaces", o.namespaces)
	return mgr.Start(ctx)
}

// everywhere runs on every operator, whether or not it is elected.
type everywhere func(context.Context)

func (e everywhere) Start(ctx context.Context) error { e(ctx); return nil }
func (e everywhere) NeedLeaderElection() bool        { return false }

func newManager(o *options) (manager.Manager, error) {
	conf, err := kubernetes(o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("how to reach Kubernetes: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	conf.QPS, conf.Burst = 50, 100 // for the first look at many resources
	renew, retry := o.lease*3/4, o.lease/12
	return ctrl.NewManager(conf, manager.Options{
		Scheme:                  scheme,
		Client:                  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}, // passwords stay out of the memory
		Cache:                   reconcile.CacheOptions(o.namespaces),
		Metrics:                 metricsserver.Options{BindAddress: o.metrics},
		HealthProbeBindAddress:  o.probes,
		LeaderElection:          o.elect,
		LeaderElectionID:        o.leaseName,
		LeaderElectionNamespace: o.electIn,
		LeaseDuration:           &o.lease, RenewDeadline: &renew, RetryPeriod: &retry,
		LeaderElectionReleaseOnCancel: true, // nothing runs after the manager
	})
}

// kubernetes is how to reach the API: by a file, or as a pod does.
func kubernetes(file string) (*rest.Config, error) {
	if file != "" {
		return clientcmd.BuildConfigFromFlags("", file)
	}
	return rest.InClusterConfig()
}
