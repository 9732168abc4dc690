package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// check is one Check of a session.
type check struct {
	Session string `json:"session"`
	Began   int64  `json:"began,omitempty"` // none: the session was opened
	Ended   int64  `json:"ended,omitempty"`
	OK      bool   `json:"ok"`
	Fenced  bool   `json:"fenced"`
}

func open(v *substrate.Volume) (*substrate.Session, error) {
	if err := v.Init(""); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return v.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 1, Host: host, PID: os.Getpid(), Started: time.Now()})
}

// session Checks until it is fenced.
func session(ctx context.Context, v *substrate.Volume, p plan) error {
	s, err := open(v)
	if err != nil {
		return err
	}
	if err := say(check{Session: s.ID()}); err != nil {
		return err
	}
	for {
		c := check{Session: s.ID(), Began: now()}
		err := s.Check(ctx)
		c.Ended, c.OK, c.Fenced = now(), err == nil, errors.Is(err, substrate.ErrFenced)
		if err := say(c); err != nil {
			return err
		}
		if c.Fenced {
			return s.Close(ctx)
		}
		if err := wait(ctx, p.every); err != nil {
			return err
		}
	}
}

// seal seals the session that is named and tells when.
func seal(ctx context.Context, v *substrate.Volume, p plan) error {
	if len(p.args) != 1 {
		return fmt.Errorf("seal takes one session")
	}
	if err := v.Init(""); err != nil {
		return err
	}
	c := check{Session: p.args[0], Began: now()}
	if err := v.Seal(ctx, p.args[0]); err != nil {
		return err
	}
	c.Ended, c.Fenced = now(), true
	return say(c)
}
