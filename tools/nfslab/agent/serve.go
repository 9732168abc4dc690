package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// agent runs commands.
type agent struct {
	ready  chan struct{} // closed with failed set
	failed error

	mu struct {
		sync.Mutex
		spawned map[int]*spawn // by process number; kept when they have ended
	}
}

type spawn struct {
	ended chan struct{} // closed with code set
	code  int
}

func (a *agent) serve(addr string) error {
	a.mu.spawned = map[int]*spawn{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", a.serveReady)
	mux.HandleFunc("POST /exec", serveExec)
	mux.HandleFunc("POST /spawn", a.serveSpawn)
	mux.HandleFunc("GET /wait", a.serveWait)
	mux.HandleFunc("GET /clock", serveClock)
	mux.HandleFunc("POST /clock", serveClock)
	return http.ListenAndServe(addr, mux)
}

func (a *agent) serveReady(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-a.ready:
		if a.failed != nil {
			http.Error(w, a.failed.Error(), http.StatusInternalServerError)
		}
	default:
		http.Error(w, "not mounted yet", http.StatusServiceUnavailable)
	}
}

func serveExec(w http.ResponseWriter, r *http.Request) {
	line, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Trailer", ExitCode)
	out := flushing{w, http.NewResponseController(w)}
	_ = out.c.Flush() // in pieces from here on, so that the header behind is sent even after no output
	cmd := exec.CommandContext(r.Context(), "/bin/bash", "-c", string(line))
	cmd.Dir = dataDir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	var bad *exec.ExitError
	if err != nil && !errors.As(err, &bad) {
		fmt.Fprintln(out, err)
	}
	w.Header().Set(ExitCode, strconv.Itoa(code(cmd)))
}

// flushing sends every piece of output at once.
type flushing struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err == nil {
		err = f.c.Flush()
	}
	return n, err
}

// code is the exit code as a shell would tell it.
func code(cmd *exec.Cmd) int {
	const notStarted, signalled = 127, 128
	if cmd.ProcessState == nil {
		return notStarted
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return signalled + int(ws.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

func (a *agent) serveSpawn(w http.ResponseWriter, r *http.Request) {
	line, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	log := filepath.Join(logDir, filepath.Base(r.URL.Query().Get("log")))
	cmd := exec.Command("/bin/bash", "-c", `exec >>"$0" 2>&1; eval "$1"`, log, string(line))
	cmd.Dir = dataDir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s := &spawn{ended: make(chan struct{})}
	a.mu.Lock()
	a.mu.spawned[cmd.Process.Pid] = s
	a.mu.Unlock()
	go func() { // ends with the process, at the latest with the host
		_ = cmd.Wait()
		s.code = code(cmd)
		close(s.ended)
	}()
	_ = json.NewEncoder(w).Encode(Spawned{PID: cmd.Process.Pid})
}

func (a *agent) serveWait(w http.ResponseWriter, r *http.Request) {
	pid, err := strconv.Atoi(r.URL.Query().Get("pid"))
	a.mu.Lock()
	s := a.mu.spawned[pid]
	a.mu.Unlock()
	if err != nil || s == nil {
		http.Error(w, "no process of that number was spawned", http.StatusNotFound)
		return
	}
	select {
	case <-s.ended:
		fmt.Fprint(w, s.code)
	case <-r.Context().Done():
	}
}
