// Package nfssim simulates one file server and several hosts that mount it, so
// that code on [substrate.FS] meets in a second what NFS does to it in a year.
//
// # Use
//
// Inside testing/synctest: make a [Sim] with [New], give every simulated broker
// process its own [Process] (a substrate.FS), start its goroutines, and call
// [Sim.Run] from the test's goroutine:
//
//	synctest.Test(t, func(t *testing.T) {
//		sim := nfssim.New(nfssim.Config{Seed: seed, LostReply: 0.05})
//		defer sim.Stop()
//		fs := sim.Host("a").FS()
//		go func() { broker(fs); done.Store(true) }()
//		if err := sim.Run(done.Load); err != nil { t.Fatal(err, sim.Trace()) }
//	})
//
// Every call parks. Run waits until all goroutines of the bubble are blocked,
// picks one parked call by the seed, performs it, and releases it; now and then it
// lets fake time pass instead. Run's argument is asked between any two calls,
// with everything blocked, so it may look at the state of the test and at
// [Sim.Server], the server's truth. Crashes and faults go in through [Sim.At],
// [Config.Fault], [Process.Kill], [Host.PowerLoss] and their like, called from
// At, from Run's argument, or between two Runs; there no call may be parked.
//
// # Rules for the code under test
//
// No mutex may be held across a call: synctest does not count a goroutine that
// waits for a mutex as blocked, so Run would wait for ever. Randomness must be
// seeded and map order must not reach the order of calls, else a seed does not
// replay. Calls of one process that are parked at once and equal in operation,
// name, offset and data cannot be told apart; all others are ordered by these.
//
// # Model
//
// The server is a tree of inodes with a change counter each. A host has, per
// directory, the counter it last saw and the names it looked up (absent ones
// too), trusted until the counter is seen to differ or a time is over; per file,
// the content at its last revalidation and the data not yet sent. As measured on
// Linux 6.1 with NFSv4.1:
//
//   - Open of a present name goes to the server. It is answered with the *old*
//     file while the host holds a read delegation it does not know to be revoked,
//     or while the replaced file has another link; with ESTALE while somebody
//     holds the replaced file open. Listing the directory ends all three.
//   - Open of a name looked up while absent stays ENOENT until NegTTL is over or
//     the host lists or changes the directory.
//   - List is fresh; with Config.StaleList it may be an earlier listing that this
//     host saw since its own last change of the directory.
//   - A directory on the way is found through cached names, so it may have moved.
//   - Rename, Mkdir, CreateExclusive and Remove are decided by the server by
//     name, but a cached absent name gives ENOENT for a source, and a cached
//     present one may give EEXIST to Mkdir.
//   - Removing a file open on the same host leaves .nfsXXXX until the last close.
//     Renaming over one does the same first, as a step of its own: in between the
//     name is absent for everyone (Config.AtomicReplace leaves this out).
//   - A handle to a file that another host removed gives ESTALE once its cached
//     attributes expire.
//   - Written data is the host's until writeback (at any time), Datasync or Close,
//     and uncommitted on the server until the writer's Datasync.
//
// With Config.Local there is one machine, no caches, and a power loss undoes, by
// coin flip, directory operations without SyncDir and data without Datasync.
//
// # Invariants
//
// Sim.mu guards everything and is never held while a call is parked or a hook
// runs. Random numbers are drawn only where the order of events is settled: in
// Run and in the crash functions.
package nfssim
