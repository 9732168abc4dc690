package substrate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"

	"kaas.dev/kaas/internal/sleep"
)

// ClaimBody is the content of an epoch's claim. An empty session is a burnt epoch,
// or the birth of a stream: nobody ever writes there.
type ClaimBody struct {
	Session string `msgpack:"session" json:"session"`
	Nonce   string `msgpack:"nonce" json:"nonce"`
}

// Claim makes the session the owner of epoch e of a stream and returns the entry
// it continues from. Afterwards no lower epoch's owner can have anything more
// acknowledged that is not in that entry's fold.
//
// The epoch's directory is complete when it appears (rule 1) and the server lets
// one in (rule 3). The search below it goes by number, never by a listing: an
// epoch nobody made is burnt, so that none can appear behind our back.
//
// On ErrEpochTaken the caller is told a higher epoch and tries again; on other
// errors the epoch may be ours, but nothing was published under it, and the
// caller goes on with a higher one too.
func (s *Session) Claim(ctx context.Context, stream string, e Epoch) (Position, error) {
	if e < 1 {
		return Position{}, fmt.Errorf("claim %s: epoch %d is below 1", stream, e)
	}
	if err := s.beginLead(stream); err != nil {
		return Position{}, err
	}
	c := &claimer{s: s, v: s.v, ctx: ctx, stream: stream, epoch: e, plugs: map[Position]bool{}, nonces: map[string]bool{}}
	base, err := c.claim(e)
	if err != nil {
		// Nothing was published: every rename of an entry has trivially returned.
		s.EndLead(stream, true)
		return Position{}, fmt.Errorf("claim %s epoch %d: %w", stream, e, err)
	}
	return base, nil
}

type claimer struct {
	s      *Session
	v      *Volume
	ctx    context.Context
	stream string
	epoch  Epoch
	sealed []string          // sessions sealed on the way, whose temporaries may go
	others bool              // an epoch met on the way down was claimed by somebody else
	plugs  map[Position]bool // made by us
	nonces map[string]bool   // of our own tries
}

func (c *claimer) claim(e Epoch) (Position, error) {
	mine, _, err := c.take(e, c.s.id)
	if err != nil {
		return Position{}, err
	}
	if !mine {
		return Position{}, ErrEpochTaken
	}
	for k := e - 1; k >= 0; k-- {
		n, err := c.end(k)
		if err != nil {
			return Position{}, err
		}
		if n > 0 {
			c.sweepTemporaries(k)
			return Position{k, n}, nil
		}
	}
	return Position{}, ErrNoBase
}

// take renames a complete epoch directory for session to epoch e. It reports
// whether that one is in place now, and the claim that is if not.
func (c *claimer) take(e Epoch, session string) (mine bool, other ClaimBody, err error) {
	if c.v.Breaks.TwoStepClaim {
		return c.takeInTwoSteps(e, session)
	}
	err = c.retry(func() error {
		mine, other, err = c.tryTake(e, session)
		return err
	})
	return mine, other, err
}

func (c *claimer) tryTake(e Epoch, session string) (bool, ClaimBody, error) {
	body := ClaimBody{Session: session, Nonce: c.v.newID()}
	c.nonces[body.Nonce] = true
	data, err := EncodeFile(KindClaim, 0, body)
	if err != nil {
		return false, body, err
	}
	tmp := c.v.TempName(c.stream, c.s.id)
	if err := c.v.buildDir(tmp, map[string][]byte{ClaimName: data}); err != nil {
		_ = c.v.Discard(tmp)
		return false, body, err
	}
	rerr := c.v.Rename(tmp, path.Join(c.stream, EpochName(e)))
	if rerr != nil {
		// Refused, or mine with the reply lost: the claim in place tells.
		got, err := c.readClaim(e)
		if err != nil {
			_ = c.v.Discard(tmp)
			return false, body, errors.Join(rerr, err)
		}
		if got.Nonce != body.Nonce {
			_ = c.v.Discard(tmp)
			if !c.nonces[got.Nonce] {
				return false, got, nil
			}
			// An earlier try of ours is in place. That is as good as burnt; but its name did
			// not become durable, and no later fsync that succeeds would make it so.
			if session != "" {
				err = fmt.Errorf("%w: an earlier try is in place", ErrNotDurable)
			}
			return session == "", body, err
		}
	}
	return true, body, c.v.syncDir(c.stream)
}

func (c *claimer) readClaim(e Epoch) (ClaimBody, error) { return c.v.ReadClaim(c.stream, e) }

// ReadClaim reads the claim of an epoch that is known to be there. A cached miss
// is cured by listing the directories above it. An epoch appears with its claim and keeps
// it, so a listing that shows the epoch without one shows damage.
func (v *Volume) ReadClaim(stream string, e Epoch) (ClaimBody, error) {
	name := ClaimPath(stream, e)
	b, err := v.ReadFile(name)
	if isNotExist(err) {
		_, _ = v.ListFresh(stream)
		es, lerr := v.ListFresh(path.Join(stream, EpochName(e)))
		b, err = v.ReadFile(name)
		lacks := !slices.ContainsFunc(es, func(de DirEntry) bool { return de.Name == ClaimName })
		if isNotExist(err) && lerr == nil && lacks && !v.Breaks.TwoStepClaim {
			return ClaimBody{}, &DamageError{File: name, Cause: "is missing, and no epoch is ever without its claim"}
		}
	}
	if err != nil {
		return ClaimBody{}, err
	}
	return DecodeClaim(name, b)
}

// DecodeClaim decodes a claim file.
func DecodeClaim(file string, b []byte) (ClaimBody, error) {
	var body ClaimBody
	_, err := DecodeFile(file, KindClaim, b, &body)
	return body, err
}

// end makes sure that epoch k can never gain an acknowledged entry any more and
// returns the sequence of its newest one, 0 if it has none.
func (c *claimer) end(k Epoch) (uint64, error) {
	claim, burnt, err := c.claimOrBurn(k)
	if err != nil || burnt {
		return 0, err
	}
	before, closed, err := c.newest(k)
	if err != nil {
		return 0, err
	}
	if closed {
		return before, nil
	}
	// One's own session is not sealed: beginLead saw that its leadership has ended.
	if claim.Session != "" && claim.Session != c.s.id {
		if err := c.v.Seal(c.ctx, claim.Session); err != nil {
			return 0, err
		}
		c.sealed = append(c.sealed, claim.Session)
	}
	if c.v.Breaks.ListBeforeSeal {
		return before, nil
	}
	n, _, err := c.newest(k)
	if err != nil || c.v.Breaks.NoPlug {
		return n, err
	}
	if n, err = c.plug(k, n); err == nil {
		err = c.acknowledged(k, n)
	}
	c.others = true
	return n, err
}

// acknowledged refuses an end below what the owner's HEAD says was acknowledged: the
// entry there has been emptied or is gone. Without a HEAD that can be read nothing
// is known, and nothing is refused.
func (c *claimer) acknowledged(k Epoch, n uint64) error {
	p, ok := c.v.ReadHead(c.stream, k)
	if !ok || p.Seq <= n {
		return nil
	}
	return c.lost(p, "is empty or missing, but HEAD names it as acknowledged")
}

// lost says that an entry is damaged, unless somebody has claimed above us: that one
// may have plugged or pruned it. Rule 2: it only refuses, and leaves nothing that the
// next try, with another name, would not do again.
func (c *claimer) lost(p Position, cause string) error {
	// A change of our own makes the listing that follows a fresh one.
	tmp := c.v.TempName(c.stream, c.s.id)
	if err := c.v.Mkdir(tmp); err != nil {
		return err
	}
	if err := c.v.Remove(tmp); err != nil {
		return err
	}
	es, err := c.v.ListEpochs(c.stream)
	if err != nil || len(es) > 0 && es[len(es)-1] > c.epoch {
		return err
	}
	return &DamageError{File: EntryPath(c.stream, p), Cause: cause}
}

func (c *claimer) claimOrBurn(k Epoch) (claim ClaimBody, burnt bool, err error) {
	if k == 0 { // born with the stream; never made later
		err = c.retry(func() error { claim, err = c.readClaim(0); return err })
		if isNotExist(err) {
			err = fmt.Errorf("%w: %w", ErrNoBase, err)
		}
		return claim, false, err
	}
	if c.listed(k) { // a hint that saves building a directory to be refused
		if claim, err = c.readClaim(k); err == nil {
			return claim, false, nil
		}
		var damage *DamageError
		if errors.As(err, &damage) {
			return claim, false, err
		}
		if c.v.Breaks.TwoStepClaim && isNotExist(err) {
			return claim, true, nil
		}
	}
	mine, other, err := c.take(k, "")
	return other, mine, err
}

func (c *claimer) listed(k Epoch) bool {
	es, err := c.v.ListFresh(c.stream)
	if err != nil {
		return false
	}
	for _, e := range es {
		if e.Name == EpochName(k) {
			return true
		}
	}
	return false
}

// newest lists epoch k and returns its newest non-empty entry, 0 if none, and
// whether that one is closed.
func (c *claimer) newest(k Epoch) (n uint64, closed bool, err error) {
	err = c.retry(func() error {
		n, closed, err = c.tryNewest(k)
		return err
	})
	return n, closed, err
}

func (c *claimer) tryNewest(k Epoch) (uint64, bool, error) {
	ps, err := c.v.ListEntries(c.stream, k)
	if err != nil {
		return 0, false, err
	}
	for i := len(ps) - 1; i >= 0; i-- {
		name := EntryPath(c.stream, ps[i])
		b, err := c.v.ReadFile(name)
		if err != nil {
			return 0, false, err
		}
		if len(b) == 0 { // a plug
			if err := c.plugged(ps[i]); err != nil {
				return 0, false, err
			}
			continue
		}
		f, err := DecodeFrame(name, KindEntry, b)
		return ps[i].Seq, f.Flags&FlagClosed != 0, err
	}
	return 0, false, nil
}

// plugged refuses an empty entry that cannot be a plug: only who claimed a higher
// epoch makes one, so below nobody's but our own it is an entry that has lost its bytes.
func (c *claimer) plugged(p Position) error {
	if c.others || c.plugs[p] {
		return nil
	}
	return c.lost(p, "is empty, and nobody was there to plug it")
}

// plug makes the position after n impossible to publish at, going on from any
// entry that the listing had missed, and returns the newest entry.
func (c *claimer) plug(k Epoch, n uint64) (uint64, error) {
	for {
		taken, err := c.plugOne(Position{k, n + 1})
		if err != nil {
			return 0, err
		}
		if taken { // an entry: the listing was stale
			n++
			continue
		}
		// Within an epoch that is pruned the hole we plugged may lie below living
		// entries; our own create has made this listing fresh.
		m, _, err := c.newest(k)
		if err != nil {
			return 0, err
		}
		if m <= n+1 {
			return n, nil
		}
		n = m
	}
}

// plugOne creates the empty file at p. taken reports that an entry is there; a
// plug of anybody's, or our own with its reply lost, is as good as ours.
func (c *claimer) plugOne(p Position) (taken bool, err error) {
	name := EntryPath(c.stream, p)
	c.plugs[p] = true // or perhaps: a reply may be lost
	err = c.retry(func() error {
		f, err := c.v.CreateExclusive(name)
		if err == nil {
			return f.Close()
		}
		if !errors.Is(err, syscall.EEXIST) {
			return err
		}
		b, err := c.v.ReadFile(name)
		taken = len(b) > 0
		return err
	})
	return taken, err
}

// retry drives one idempotent step past passing errors (rule 2). Damage, fencing
// and full volumes are not passing.
func (c *claimer) retry(step func() error) error {
	const tries = 6
	var err error
	for i := range tries {
		var damage *DamageError
		var name *NameError
		if err = step(); err == nil || errors.As(err, &damage) || errors.As(err, &name) || errors.Is(err, ErrNotDurable) {
			return err
		}
		if c.ctx.Err() != nil {
			return errors.Join(err, c.ctx.Err())
		}
		sleep.Before(c.ctx, i, mostPause)
	}
	return err
}

// sweepTemporaries removes what the sessions sealed on the way had begun and
// never renamed. Best effort: the names are ignored wherever they are met.
func (c *claimer) sweepTemporaries(k Epoch) {
	if len(c.sealed) == 0 {
		return
	}
	for _, dir := range []string{c.stream, path.Join(c.stream, EpochName(k))} {
		es, err := c.v.ListFresh(dir)
		if err != nil {
			continue
		}
		for _, e := range es {
			owner, ok := TempOwner(e.Name)
			switch name := path.Join(dir, e.Name); {
			case !ok || !slices.Contains(c.sealed, owner):
			case e.Dir:
				_ = c.v.Discard(name)
			default:
				_ = c.v.Remove(name)
			}
		}
	}
}

// ListEntries lists an epoch's entry names, plugs included, in order. A name that
// ends like an entry's and does not parse, or names another epoch, is an error.
func (v *Volume) ListEntries(stream string, e Epoch) ([]Position, error) {
	dir := path.Join(stream, EpochName(e))
	es, err := v.ListFresh(dir)
	if err != nil {
		return nil, err
	}
	ps := make([]Position, 0, len(es))
	for _, de := range es {
		if IsTemporary(de.Name) || !strings.HasSuffix(de.Name, entryExt) {
			continue
		}
		p, err := ParseEntryName(de.Name)
		if err != nil {
			return nil, &NameError{path.Join(dir, de.Name), err.Error()}
		}
		if p.Epoch != e {
			return nil, &NameError{path.Join(dir, de.Name), "is an entry of another epoch"}
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// ListEpochs lists a stream's epochs in order.
func (v *Volume) ListEpochs(stream string) ([]Epoch, error) {
	des, err := v.ListFresh(stream)
	if err != nil {
		return nil, err
	}
	var es []Epoch
	for _, de := range des {
		if !de.Dir || len(de.Name) != 10 || de.Name[0] < '0' || de.Name[0] > '9' {
			continue
		}
		e, err := ParseEpochName(de.Name)
		if err != nil {
			return nil, &NameError{path.Join(stream, de.Name), err.Error()}
		}
		es = append(es, e)
	}
	return es, nil
}

// takeInTwoSteps is Breaks.TwoStepClaim: the directory first, the claim after.
func (c *claimer) takeInTwoSteps(e Epoch, session string) (bool, ClaimBody, error) {
	body := ClaimBody{Session: session, Nonce: c.v.newID()}
	data, err := EncodeFile(KindClaim, 0, body)
	if err != nil {
		return false, body, err
	}
	dir := path.Join(c.stream, EpochName(e))
	if err := c.v.Mkdir(dir); err != nil {
		got, err := c.readClaim(e)
		return false, got, err
	}
	return true, body, c.v.ReplaceFile(dir, ClaimName, c.s.id, data)
}
