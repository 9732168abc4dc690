package election

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// What the Kubernetes libraries say without a logger of their caller's goes nowhere:
// by default it would go to the process's standard error in another format.
func init() { klog.SetLoggerWithOptions(logr.Discard(), klog.ContextualLogger(true)) }

// libraryLog has the libraries log to log, at debug level whatever they think of it: a
// lock that somebody else holds is no error.
func libraryLog(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(demoted{log.Handler()}))
}

// demoted is a handler for which nothing is above debug level.
type demoted struct{ to slog.Handler }

// Enabled implements slog.Handler.
func (h demoted) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug && h.to.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler. Errors come without a question to Enabled.
func (h demoted) Handle(ctx context.Context, r slog.Record) error {
	if !h.to.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	r.Level = slog.LevelDebug
	return h.to.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h demoted) WithAttrs(as []slog.Attr) slog.Handler { return demoted{h.to.WithAttrs(as)} }

// WithGroup implements slog.Handler.
func (h demoted) WithGroup(name string) slog.Handler { return demoted{h.to.WithGroup(name)} }
