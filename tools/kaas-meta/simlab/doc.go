// Package simlab is where tests try what kaas-meta does to a volume's metadata: simulated hosts,
// on one of which the tool is a process that may be killed at any of its calls. [Crash] has
// nobody else there, [Run] has two brokers serve all the time.
package simlab
