package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"kaas.dev/kaas/internal/substrate"
)

// startRoom must fit on a volume that was full before the start is tried again: more than
// a start writes, so that the next try comes through instead of leaving a claim behind.
const startRoom = floor

type starter func(ctx context.Context, v *substrate.Volume, opt Options) (*Broker, error)

// waitForRoom starts a broker. A volume without any room lets nobody in, for a session is
// a directory; the process then waits, tells why, and starts as soon as there is some.
// Each try is a whole new one: nothing of a start that ran into the end of the room is
// gone on with. It returns when the broker has started, for another error, or with ctx.
func waitForRoom(ctx context.Context, v *substrate.Volume, opt Options, start starter) (*Broker, error) {
	opt = opt.withDefaults()
	b, err := start(ctx, v, opt)
	if !substrate.IsFull(err) {
		return b, err
	}
	opt.Log.Error("the volume has no room for this broker's session: the start waits for some", "node", opt.NodeID, "err", err)
	defer opt.Waiting(nil)
	for p := (pace{}); substrate.IsFull(err); {
		opt.Waiting(fmt.Errorf("the volume has no room for this broker's session, the start waits for some: %s", strings.ReplaceAll(err.Error(), "\n", "; ")))
		if !p.wait(ctx) {
			return nil, err
		}
		if full := tryRoom(v, opt.NodeID); full == nil || !substrate.IsFull(full) {
			b, err = start(ctx, v, opt)
		}
	}
	if err == nil {
		opt.Log.Info("the volume has room again: the broker has started", "node", opt.NodeID)
	}
	return b, err
}

// tryRoom takes some room and gives it back, under a name that anybody may remove.
func tryRoom(v *substrate.Volume, node int32) error {
	name := substrate.DeletedPrefix + "room~" + strconv.Itoa(int(node))
	if err := v.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // what an earlier process has left stays
	}
	err := fill(v, name, startRoom)
	if rerr := v.Remove(name); err == nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = rerr
	}
	return err
}
