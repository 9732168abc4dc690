package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/tlsconf"
)

// drainTime is how long what was started may take to be answered at a stop; with
// what the broker needs after it, a stop is done within two seconds.
const drainTime = 800 * time.Millisecond

// Node is a whole broker: the volume, the coordinator, and the server before them.
type Node struct {
	cfg     *Config
	log     *slog.Logger
	metrics *metrics
	stores  map[string]*tlsconf.Store // of the listeners that speak TLS, by name
	watch   *keyWatch
	login   *peerLogin
	lns     []net.Listener
	httpLn  net.Listener
	http    *httpServer
	server  *Server
	broker  *coordinator.Broker
	ready   atomic.Pointer[coordinator.Broker] // what /readyz asks; nil before the start is over
	waits   atomic.Pointer[error]              // what the start waits for, if anything
}

// Open starts a broker. Its order keeps a broker that must not start from changing
// anything: keys are read and addresses bound first, then the volume is looked at, and only a
// volume that may be used is written to. Errors are one line.
func Open(ctx context.Context, cfg *Config, log *slog.Logger) (*Node, error) {
	n := &Node{cfg: cfg, log: log, metrics: newMetrics()}
	var err error
	if n.stores, err = cfg.openTLS(); err == nil {
		err = n.bind()
	}
	if err == nil {
		err = n.open(ctx)
	}
	if err != nil {
		n.login.stop(ctx)
		n.unbind()
		return nil, err
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) error {
	v, mode, err := openVolume(n.cfg, n.log)
	if err != nil {
		return fmt.Errorf("log.dirs %s: %w", n.cfg.LogDir, substrate.Denied(n.cfg.LogDir, err))
	}
	if n.cfg, err = n.cfg.findServices(ctx, n.log, func(why error) { n.waits.Store(&why) }); err != nil {
		return err
	}
	n.logIn()
	opt := n.options()
	n.awaitReached(ctx, opt.Listeners)
	if opt.Lock, err = n.lock(v); err != nil {
		return err
	}
	n.broker, err = coordinator.Start(ctx, v, opt)
	if err != nil {
		return substrate.Denied(n.cfg.LogDir, err)
	}
	n.metrics.watchCleaner(n.broker.CleanerStats)
	n.ready.Store(n.broker)
	n.watch = n.watchKeys()
	n.server = Start(n.cfg, v.ID, broker{n.broker}, n.lns, n.metrics, n.log)
	n.announce(v.ID, mode)
	return nil
}

// openVolume opens the volume, or makes it; mode is its directory's.
func openVolume(cfg *Config, log *slog.Logger) (v *substrate.Volume, mode fs.FileMode, err error) {
	dir, err := substrate.MakeDir(cfg.LogDir)
	if err != nil {
		return nil, 0, err
	}
	dir.Private()
	if err = fitMount(dir.Mount, log); err == nil {
		v, err = openIn(dir, cfg.ClusterID)
	}
	if err != nil {
		dir.Unmake()
	}
	return v, dir.Mode(), err
}

// breaks is empty, but in a build with the tag kaasbreak.
var breaks substrate.Breaks

func openIn(fs substrate.FS, clusterID string) (*substrate.Volume, error) {
	if err := probeNew(fs); err != nil {
		return nil, err
	}
	v := &substrate.Volume{FS: substrate.NewPool(fs, substrate.PoolLimits{}), Breaks: breaks}
	return v, v.Init(clusterID)
}

// probeBytes is more than what a new volume's first files take.
const probeBytes = 256 << 10

// probeNew tries whether a directory that holds nothing yet can be written to and
// has room, so that a broker which cannot start leaves nothing in it.
func probeNew(fs substrate.FS) error {
	v := &substrate.Volume{FS: fs}
	if es, err := v.ListFresh("."); err != nil || len(es) > 0 {
		return err
	}
	tmp, err := v.WriteTemp(".", "probe", make([]byte, probeBytes))
	if err != nil {
		return err
	}
	return v.Remove(tmp)
}

// notSynced is told wherever the setting is seen: at start, and when it changes.
const notSynced = "log.flush.interval.messages is above 1: acknowledged records are not synced and can be lost"

// openToOthers is told once, when it serves.
const openToOthers = "the directory of log.dirs is not for the broker's user alone: others may reach the records and credentials in it, mode 0700 keeps them out"

func (n *Node) announce(clusterID string, mode fs.FileMode) {
	n.log.Info("serving", "node", n.cfg.NodeID, "cluster", clusterID, "listener", n.Addr(), "http", n.HTTPAddr(), "dir", n.cfg.LogDir)
	if n.cfg.in(n.broker.View()).FlushMessages > 1 {
		n.log.Warn(notSynced)
	}
	if mode&0o007 != 0 {
		n.log.Warn(openToOthers, "dir", n.cfg.LogDir, "mode", fmt.Sprintf("%04o", mode))
	}
	if keys := n.cfg.notActed(); len(keys) > 0 {
		n.log.Warn("set, and shown to clients as topics' defaults, but nothing acts on it yet", "keys", keys)
	}
}

// bind takes the addresses, so that one in use is found out before all else.
func (n *Node) bind() error {
	for _, ep := range n.cfg.Listeners {
		ln, err := net.Listen("tcp", ep.address())
		if err != nil {
			return fmt.Errorf("listeners: %w", err)
		}
		if st := n.stores[ep.Name]; st != nil {
			ln = tls.NewListener(ln, st.Server())
		}
		n.lns = append(n.lns, ln)
	}
	if n.cfg.HTTP == "" {
		return nil
	}
	ln, err := net.Listen("tcp", n.cfg.HTTP)
	if err != nil {
		return fmt.Errorf("http.listeners: %w", err)
	}
	n.httpLn = ln
	n.http = startHTTP(ln, n.metrics, n.notReady, n.log)
	return nil
}

var errStarting = errors.New("the broker is starting")

func (n *Node) notReady() error {
	if b := n.ready.Load(); b != nil {
		return b.NotReady()
	}
	if why := n.waits.Load(); why != nil && *why != nil {
		return *why
	}
	return errStarting
}

func (n *Node) unbind() {
	for _, ln := range n.lns {
		ln.Close()
	}
	if n.http != nil {
		n.http.close()
	}
}

func (n *Node) options() coordinator.Options {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return coordinator.Options{
		NodeID: n.cfg.NodeID, Host: host, Rack: n.cfg.Rack, Listeners: n.advertised(host),
		PartitionConfig: n.cfg.livePartitionConfig,
		HistoryAge:      n.cfg.HistoryRetention,
		HistoryEntries:  int(n.cfg.HistoryEntries),
		CheckInterval:   n.cfg.MetadataPoll,
		InterBroker:     n.cfg.InterBroker,
		Secure:          n.secureToPeers(),
		Login:           n.login.toPeers(),
		LeaseDuration:   n.cfg.LeaseDuration, RenewDeadline: n.cfg.LeaseRenewDeadline, LeaseRetry: n.cfg.LeaseRetry,
		FollowInterval:    n.cfg.MetadataPoll,
		HeartbeatInterval: n.cfg.HeartbeatInterval, SessionTimeout: n.cfg.SessionTimeout,
		HandoverWait: n.cfg.HandoverWait,
		StallAfter:   n.cfg.ProbeStall,
		GroupShards:  n.cfg.GroupShards, TxnShards: n.cfg.TxnShards,
		Groups: groupshard.Options{Config: n.cfg.groupConfigs(), CleanEvery: n.cfg.Groups.RetentionCheck},
		Txns: txnshard.Options{MaxTimeout: n.cfg.TxnMaxTimeout, ForgetAfter: n.cfg.TxnIDExpiry,
			AbortEvery: n.cfg.TxnAbortEvery, CleanEvery: n.cfg.TxnForgetEvery},
		FenceExpiry:   n.cfg.TxnIDExpiry,
		Cleaner:       &n.cfg.Cleaner,
		CleanerLive:   func(view *projections.Cluster) partition.CleanerOptions { return n.cfg.in(view).Cleaner },
		MinFree:       n.cfg.MinFree,
		Ballast:       n.cfg.Ballast,
		RecoveryBytes: n.cfg.RecoveryBytes,
		Waiting:       func(why error) { n.waits.Store(&why) },
		Log:           n.log,
	}
}

// lock is what the brokers of the cluster elect their controller by.
func (n *Node) lock(v *substrate.Volume) (resourcelock.Interface, error) {
	me := strconv.Itoa(int(n.cfg.NodeID))
	if n.cfg.Election != ElectionKubernetes {
		return election.NewVolumeLock(v, me), nil
	}
	lock, err := election.NewLeaseLock(election.LeaseConfig{Namespace: n.cfg.LeaseNamespace, Name: n.cfg.LeaseName, Identity: me,
		Timeout: n.cfg.LeaseRenewDeadline / 2})
	if err != nil {
		return nil, fmt.Errorf("controller.election=%s: %w", ElectionKubernetes, err)
	}
	return lock, nil
}

// advertised is what the cluster is told of how clients reach this broker.
func (n *Node) advertised(hostname string) []projections.Listener {
	var ports []int32
	for _, ln := range n.lns {
		ports = append(ports, int32(ln.Addr().(*net.TCPAddr).Port))
	}
	return n.cfg.advertised(hostname, ports)
}

// Addr is where clients connect, HTTPAddr where /metrics is; empty if nowhere.
func (n *Node) Addr() string { return n.lns[0].Addr().String() }

// AddrOf is where the clients of a listener connect, empty if there is none of that name.
func (n *Node) AddrOf(listener string) string {
	for i, ep := range n.cfg.Listeners {
		if ep.Name == listener {
			return n.lns[i].Addr().String()
		}
	}
	return ""
}

// HTTPAddr is where the http listener is, empty if there is none.
func (n *Node) HTTPAddr() string {
	if n.httpLn == nil {
		return ""
	}
	return n.httpLn.Addr().String()
}

// Done is closed when the broker has ended by itself; Err tells why.
func (n *Node) Done() <-chan struct{} { return n.broker.Done() }

// Err is why the broker has ended, nil while it runs. It wraps
// substrate.ErrFenced where another process with the same node.id took over.
func (n *Node) Err() error { return n.broker.Err() }

// Retire hands what this broker leads to others, where there are any, and serves until
// that is done (controlled.shutdown.enable). Stop comes after it.
func (n *Node) Retire(ctx context.Context) error {
	if !n.cfg.ControlledShutdown || n.broker.Err() != nil {
		return nil
	}
	return n.broker.Retire(ctx)
}

// Stop answers what is under way, hands the partitions back and ends. What is not
// done when ctx ends is left to whoever takes over.
func (n *Node) Stop(ctx context.Context) error {
	dctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if n.broker.Err() != nil {
		cancel() // fenced: nothing under way can be acknowledged any more
	}
	n.server.Shutdown(dctx)
	err := n.broker.Stop(ctx)
	n.login.stop(ctx)
	n.watch.stop(ctx)
	if n.http != nil {
		n.http.close()
	}
	if err != nil && !errors.Is(err, substrate.ErrFenced) {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
