package substrate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/internal/sleep"
)

// Reidentify gives the volume another ID: one rename (rule 1), by which whatever was built
// below the new ID begins to count, and all below the old one is no more. It makes volume/
// where that is lost. An error wrapping ErrUnknown means that it may have happened.
func (v *Volume) Reidentify(ctx context.Context, session, id string) error {
	es, err := v.ListFresh(".")
	if err != nil {
		return err
	}
	for _, e := range es {
		if e.Name == volumeDir {
			return v.replaceID(ctx, session, id)
		}
	}
	got, err := v.makeID(id)
	if err == nil && got != id {
		err = fmt.Errorf("%s: another process has made it %s meanwhile", volumeFile, got)
	}
	return err
}

func (v *Volume) replaceID(ctx context.Context, session, id string) error {
	data, err := EncodeFile(KindVolume, 0, volumeBody{ID: id})
	if err != nil {
		return err
	}
	const tries = 8
	for i := range tries { // the same bytes each time (rule 2)
		err = v.ReplaceFile(volumeDir, path.Base(volumeFile), session, data)
		if err == nil || errors.Is(err, ErrNotDurable) || IsFull(err) {
			break
		}
		if sleep.Before(ctx, i, mostPause); ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", volumeFile, err)
	}
	return nil
}

// SealAll seals every session that is there when it is called, but for own, and returns how
// many were not sealed yet.
func (v *Volume) SealAll(ctx context.Context, own string) (sealed int, err error) {
	// A change of our own makes the listing that follows a fresh one.
	tmp := v.TempName(SessionsDir, own)
	if err := v.Mkdir(tmp); err != nil && !errors.Is(err, syscall.EEXIST) {
		return 0, fmt.Errorf("seal all sessions: %w", err)
	}
	if err := v.Remove(tmp); err != nil && !isNotExist(err) {
		return 0, fmt.Errorf("seal all sessions: %w", err)
	}
	es, err := v.ListFresh(SessionsDir)
	if err != nil {
		return 0, fmt.Errorf("seal all sessions: %w", err)
	}
	open := make([]bool, len(es))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i, e := range es {
		if !e.Dir || e.Name == own || strings.HasPrefix(e.Name, "~") {
			continue
		}
		g.Go(func() error {
			state, err := v.look(e.Name)
			if err == nil && state.sealed {
				return nil
			}
			open[i] = state.token
			return v.Seal(ctx, e.Name)
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	for _, was := range open {
		if was {
			sealed++
		}
	}
	return sealed, nil
}
