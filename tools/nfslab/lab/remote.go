package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"kaas.dev/kaas/tools/nfslab/agent"
)

// ExitError is a command on a host that ended with another code than 0.
type ExitError struct {
	Host, Command string
	Code          int // 128 and the signal's number, if a signal ended it
	Output        string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("%s: %s: exit code %d: %s", e.Host, e.Command, e.Code, strings.TrimSpace(e.Output))
}

// Exec runs a bash command on the host, in the directory of the volume, and returns
// what it printed on both outputs. When ctx ends or the host is killed, so does the
// command. A code other than 0 is an *ExitError.
func (h *Host) Exec(ctx context.Context, command string) (string, error) {
	var out bytes.Buffer
	code, err := h.ExecTo(ctx, &out, command)
	if err == nil && code != 0 {
		err = &ExitError{h.Name(), command, code, out.String()}
	}
	return out.String(), err
}

// ExecTo is Exec with the output as it comes, and the code it ended with.
func (h *Host) ExecTo(ctx context.Context, w io.Writer, command string) (code int, err error) {
	ctx, cancel := h.alive(ctx)
	defer cancel()
	resp, err := h.ask(ctx, http.MethodPost, "/exec", command)
	if err != nil {
		return 0, h.failed(ctx, command, err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return 0, h.failed(ctx, command, err)
	}
	code, err = strconv.Atoi(resp.Trailer.Get(agent.ExitCode))
	if err != nil {
		return 0, h.failed(ctx, command, fmt.Errorf("the answer broke off"))
	}
	return code, nil
}

func (h *Host) failed(ctx context.Context, command string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%s: %s: %w", h.Name(), command, err)
}

func (h *Host) ask(ctx context.Context, method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+h.Addr()+":"+agentPort+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return h.lab.client.Do(req)
}

// Process runs on a host in the background.
type Process struct {
	Host *Host
	PID  int    // on that host
	Log  string // file of this machine with its output
}

// Spawn starts a bash command in the background, in the directory of the volume. With
// exec before it, the number is that of the program itself. name begins the name of
// its log.
func (h *Host) Spawn(ctx context.Context, name, command string) (*Process, error) {
	log := fmt.Sprintf("%s-%s-%s.log", h.Name(), name, uuid.NewString()[:8])
	ctx, cancel := h.alive(ctx)
	defer cancel()
	resp, err := h.ask(ctx, http.MethodPost, "/spawn?log="+url.QueryEscape(log), command)
	if err != nil {
		return nil, h.failed(ctx, command, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, h.failed(ctx, command, fmt.Errorf("%s: %s", resp.Status, text))
	}
	var s agent.Spawned
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, h.failed(ctx, command, err)
	}
	return &Process{Host: h, PID: s.PID, Log: filepath.Join(h.lab.Logs(), log)}, nil
}

// Signal sends the process a signal.
func (p *Process) Signal(ctx context.Context, sig syscall.Signal) error {
	_, err := p.Host.Exec(ctx, fmt.Sprintf("kill -%d %d", sig, p.PID))
	return err
}

// Wait returns the code with which the process ended, 128 and the signal's number if
// one ended it. With the host's Kill it is an error.
func (p *Process) Wait(ctx context.Context) (int, error) {
	ctx, cancel := p.Host.alive(ctx)
	defer cancel()
	what := fmt.Sprintf("wait for process %d", p.PID)
	resp, err := p.Host.ask(ctx, http.MethodGet, "/wait?pid="+strconv.Itoa(p.PID), "")
	if err != nil {
		return 0, p.Host.failed(ctx, what, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, p.Host.failed(ctx, what, fmt.Errorf("%s: %s", resp.Status, text))
	}
	return strconv.Atoi(string(text))
}

// End is the last of the process's output.
func (p *Process) End() string { return end(p.Log) }
