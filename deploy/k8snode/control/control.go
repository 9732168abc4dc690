// Package control runs the API of a Kubernetes: an etcd and a kube-apiserver, in a directory.
//
//	pki/            package pki
//	etcd/           what the API server knows; a later start finds it again
//	NAME.log        of etcd and of kube-apiserver
//	NAME.pid        the same, while they run
//	kubeconfig      of an administrator; in JSON, which is YAML too
//	lock            held by who runs here
//
// Ports are the kernel's choice and stay reserved (process.Port), so that an API server that
// is killed comes back where its clients look for it.
package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kaas.dev/kaas/deploy/k8snode/pki"
	"kaas.dev/kaas/deploy/k8snode/process"
	"kaas.dev/kaas/deploy/k8snode/programs"
)

// Plane is what runs and how. The zero values of all but Dir and Programs make an API for tests:
// on a port of the loopback, for programs that have no pods.
type Plane struct {
	Dir      string
	Programs *programs.Set

	Host     string   // the address of the API server, on which pods see it too
	Services string   // the range of cluster addresses
	Names    []string // that the API server goes by besides its address
	Args     []string // of the API server, in addition
	Pids     string   // the directory of the pids, if it is another one

	authority  *pki.Authority
	port, etcd *process.Port
	peer       *process.Port
}

const loopback = "127.0.0.1"

// Programs are those that Run needs.
var Programs = []string{"etcd", "kube-apiserver"}

// Run calls ready once the API answers, and returns when the context ends and nothing runs
// any more.
func (p *Plane) Run(ctx context.Context, ready func(context.Context) error) (err error) {
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		return err
	}
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.prepare(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.port.Close(), p.etcd.Close(), p.peer.Close()) }()

	etcd, server := p.etcdProcess(), p.serverProcess()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return etcd.Run(ctx) })
	group.Go(func() error { return server.Run(ctx) })
	group.Go(func() error {
		if err := p.await(ctx); err != nil {
			return err
		}
		etcd.Ready()
		server.Ready()
		return ready(ctx)
	})
	return group.Wait()
}

// URL is where the API is, from the moment that Run calls ready.
func (p *Plane) URL() string { return "https://" + p.port.Address() }

// Authority is that of the API's certificates, from then on.
func (p *Plane) Authority() *pki.Authority { return p.authority }

// Kubeconfig is the path of the administrator's.
func (p *Plane) Kubeconfig() string { return filepath.Join(p.Dir, "kubeconfig") }

func (p *Plane) lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(p.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another one runs in %s: %w", p.Dir, err), f.Close())
	}
	return func() { f.Close() }, nil
}

func (p *Plane) prepare() (err error) {
	if p.Host == "" {
		p.Host = loopback
	}
	if p.Pids == "" {
		p.Pids = p.Dir
	}
	if p.Services == "" {
		p.Services = "10.96.0.0/16"
	}
	for _, r := range []struct {
		host string
		port **process.Port
	}{{p.Host, &p.port}, {loopback, &p.etcd}, {loopback, &p.peer}} {
		if *r.port, err = process.Reserve(r.host); err != nil {
			return err
		}
	}
	p.authority, err = pki.Open(filepath.Join(p.Dir, "pki"))
	if err != nil {
		return err
	}
	return errors.Join(p.certificates(), p.WriteKubeconfig(p.Kubeconfig(), "admin"))
}

func (p *Plane) certificates() error {
	service, err := first(p.Services)
	if err != nil {
		return err
	}
	hosts := append([]string{p.Host, loopback, "localhost", service,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}, p.Names...)
	return errors.Join(
		p.authority.Server("kube-apiserver", hosts...),
		p.authority.Server("etcd", loopback),
		p.authority.Client("admin", "admin", "system:masters"),
		p.authority.SigningKey("service-account.key"),
	)
}

// first is the first address of a range after its own, which the API server takes for itself.
func first(cidr string) (string, error) {
	_, n, err := net.ParseCIDR(cidr)
	if err != nil {
		return "", err
	}
	n.IP[len(n.IP)-1]++
	return n.IP.String(), nil
}

// etcdProcess does not wait for the disk: what a killed etcd has written is there, and no
// test cuts the power.
func (p *Plane) etcdProcess() *process.Process {
	clients, peers := "https://"+p.etcd.Address(), "https://"+p.peer.Address()
	crt, key, ca := p.authority.File("etcd.crt"), p.authority.File("etcd.key"), p.authority.File("ca.crt")
	return p.process("etcd",
		"--name=node", "--data-dir="+filepath.Join(p.Dir, "etcd"), "--unsafe-no-fsync", "--socket-reuse-port",
		"--listen-client-urls="+clients, "--advertise-client-urls="+clients,
		"--cert-file="+crt, "--key-file="+key, "--trusted-ca-file="+ca, "--client-cert-auth",
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=node="+peers,
		"--peer-cert-file="+crt, "--peer-key-file="+key, "--peer-trusted-ca-file="+ca, "--peer-client-cert-auth",
	)
}

func (p *Plane) serverProcess() *process.Process {
	file := p.authority.File
	args := []string{
		"--etcd-servers=https://" + p.etcd.Address(), "--etcd-cafile=" + file("ca.crt"),
		"--etcd-certfile=" + file("etcd.crt"), "--etcd-keyfile=" + file("etcd.key"),
		"--bind-address=" + p.Host, "--secure-port=" + p.port.Number(), "--permit-port-sharing",
		"--tls-cert-file=" + file("kube-apiserver.crt"), "--tls-private-key-file=" + file("kube-apiserver.key"),
		"--client-ca-file=" + file("ca.crt"), "--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + file("service-account.key"),
		"--service-account-signing-key-file=" + file("service-account.key"),
		"--service-cluster-ip-range=" + p.Services, "--allow-privileged",
	}
	if p.Host == loopback {
		// Nobody makes the accounts that pods would need, and the server has no address that it
		// could publish as an endpoint.
		args = append(args, "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none", "--advertise-address=192.0.2.1")
	}
	return p.process("kube-apiserver", append(args, p.Args...)...)
}

func (p *Plane) process(name string, args ...string) *process.Process {
	return &process.Process{Name: name, Path: p.Programs.Path(name), Args: args, Logs: p.Dir, Pids: p.Pids}
}
