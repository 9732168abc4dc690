// Package cluster is the brokers that kaas-check runs and troubles: processes of this
// host on one directory (Local), or hosts of their own on real NFS.
//
// A node has a place for two processes, so that a second one with the same node.id can
// take over while the first still runs. Methods about one node are called one at a time;
// about several, at once.
package cluster

import (
	"context"
	"net"
	"time"
)

// Cluster is a number of brokers on one volume.
type Cluster interface {
	// Nodes are the node.ids, from 1.
	Nodes() []int32
	// Addrs is where clients connect, for all places.
	Addrs() []string
	// Dial is how clients connect, nil for as everybody does.
	Dial() func(ctx context.Context, network, addr string) (net.Conn, error)
	// Start starts every broker, and returns when all answer.
	Start(ctx context.Context) error
	// Stop stops every broker gracefully. An error names what did not end as it should.
	Stop() error
	// Close ends everything, whatever state it is in.
	Close()

	// Kill is SIGKILL; nothing is started.
	Kill(node int32) error
	// Terminate is a graceful stop. An error says that it did not end well.
	Terminate(node int32) error
	// Run starts the node's broker where none runs, and returns when it answers.
	Run(ctx context.Context, node int32) error
	// Pause and Resume are SIGSTOP and SIGCONT.
	Pause(node int32) error
	Resume(node int32) error
	// TakeOver starts a second process with the node.id of one that runs, or is paused, and
	// returns when it answers. From then on it is the node's broker.
	TakeOver(ctx context.Context, node int32) error
	// AwaitFenced waits for the earlier process of a node to have ended with the exit
	// code of one that was fenced.
	AwaitFenced(node int32, most time.Duration) error

	// Fill fills the volume, and Free gives the room back.
	Fill() error
	Free() error
}

// API is what a Cluster can do whose controller is elected by the API server of a Kubernetes.
type API interface {
	PauseAPI() error
	ResumeAPI() error
	// KillAPI returns when the server answers again.
	KillAPI(ctx context.Context) error
	// SlowAPI has each of its answers come so much later, 0 for not at all.
	SlowAPI(by time.Duration) error
	// CutAPI takes the way to it from brokers, and HealAPI gives it back to all.
	CutAPI(nodes ...int32) error
	HealAPI() error
	DeleteLease(ctx context.Context) error
	// RestoreAPI has the server know what it knew when the brokers were started.
	RestoreAPI(ctx context.Context) error
}

// Elected tells, in a line, who is elected, and how often that was another one.
type Elected interface {
	Told(ctx context.Context) string
}

// Pods is what a Cluster can do whose brokers are pods of a chart. A killed or terminated pod
// comes back by itself: Kill and Terminate return when it is ready again.
type Pods interface {
	// Upgrade gives all brokers another image, one after the other.
	Upgrade(ctx context.Context) error
	// Scale has so many brokers.
	Scale(ctx context.Context, brokers int) error
	// Evict evicts every pod in turn, and sees that none other can be evicted meanwhile.
	Evict(ctx context.Context) error
	// KillAll kills all brokers at once, and starts one after the other, so far apart. It returns
	// when the last is started, and waits for none.
	KillAll(ctx context.Context, apart time.Duration) error
}

// Clocks is what a Cluster can do whose hosts have clocks of their own.
type Clocks interface {
	// SetClock sets the clock of a node's host to be so far ahead of this machine's, or behind it.
	SetClock(node int32, ahead time.Duration) error
}

// Hosts is what a Cluster can do that has hosts of its own.
type Hosts interface {
	PauseHost(node int32) error
	ResumeHost(node int32) error
	// PowerOff is a power loss; Boot brings the host and its broker back.
	PowerOff(node int32) error
	Boot(ctx context.Context, node int32) error
	// Cut takes the host's network away, and Heal brings it back.
	Cut(node int32) error
	Heal(node int32) error
	// HangServer and ResumeServer hang the NFS server.
	HangServer() error
	ResumeServer() error
	// KillServer ends the NFS server at once, and StartServer starts it.
	KillServer() error
	StartServer(ctx context.Context) error
}
