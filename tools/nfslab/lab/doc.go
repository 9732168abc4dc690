// Package lab runs several small Linux hosts on one machine, all mounting one
// export of a real NFSv4.1 server, and breaks them on request.
//
// A host is a User-Mode Linux process: it has its own kernel and thus its own NFS
// client, with its own caches of attributes, names and pages. Its root is this
// machine's file system, read-only, so that any static binary built here runs there.
// The server is nfs-ganesha, or with [Options.Kernel] the kernel's own, which then
// runs in a host of its own on an ext4 image.
//
// # Layout
//
//	10.77.0.1              the server (10.77.0.10 with Options.Kernel)
//	10.77.0.(10+N)         host N, from 1
//	/mnt/data              on a host: the NFS mount, where commands run
//	/mnt/logs              on a host: the directory of [Lab.Logs] here
//	/run                   on a host: scratch, gone with the host
//
// All of it lives in one network namespace; nothing gets out. What runs is on record
// in /run/kaas-nfslab, which is how other processes find the lab.
//
// # Invariants
//
//   - There is one lab on a machine. A second Up is refused while the first is alive,
//     and cleans up after one whose process is gone.
//   - After an Up that failed, or Down, there is no process, namespace, mount or
//     file left.
//   - Only processes that are on record with their start time, or that are in the
//     lab's own namespace, are ever ended.
//   - Nothing sleeps: every wait is for a condition and has an end.
//
// # Call order
//
//	l, err := lab.Up(ctx, lab.Options{Hosts: 3})
//	defer l.Down(context.Background())
//	bin, err := l.BuildBroker(ctx)
//	b, err := l.StartBroker(ctx, 1, bin)
//	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.Dialer(l.DialContext))
//	l.Host(1).Pause()
//
// Up needs root, Go to build what runs on the hosts, and the packages of [Packages].
package lab
