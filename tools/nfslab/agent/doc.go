// Package agent is what runs as process 1 of a host of nfslab: it mounts the volume,
// or serves it, and runs the commands it is sent.
//
// # Requests
//
//	GET  /ready          200 when all is mounted, 503 before, 500 and why if that failed
//	POST /exec           runs the body in bash; the output as it comes, then the header Exit-Code
//	POST /spawn?log=F    runs it in the background, its output in file F of the logs; [Spawned]
//	GET  /wait?pid=N     when that process of a spawn has ended, its exit code
//	GET  /clock          the host's clock in Unix nanoseconds
//	POST /clock          moves it by as many nanoseconds as the body says, and does the same
//
// A command of /exec ends with the connection. There is no protection of any kind:
// whoever reaches the lab's network is root on its hosts.
package agent

// ExitCode is the header behind the output that tells with which code a command ended.
const ExitCode = "Exit-Code"

// ConfigVar is the environment variable that names the host's [Config] file.
const ConfigVar = "NFSLAB_CONFIG"

// Config is what a host is told of itself.
type Config struct {
	Name  string `json:"name"`
	Addr  string `json:"addr"`  // with the length of the network's prefix
	Agent string `json:"agent"` // where to listen
	Logs  string `json:"logs"`  // directory of the machine, to be mounted
	// Server is who to mount from and Mount with which further options. A host without
	// is itself the server.
	Server string `json:"server,omitempty"`
	Mount  string `json:"mount,omitempty"`
	Subnet string `json:"subnet,omitempty"` // who may mount from a server
}

// Spawned is the answer to a spawn.
type Spawned struct {
	PID int `json:"pid"`
}
