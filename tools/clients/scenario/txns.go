package scenario

import (
	"fmt"
	"slices"
)

// transactions makes some, and reads what they leave.
func (r *run) transactions() (c chain) {
	topic := r.topic("txns")
	id := r.topic("txn")
	c.add("transaction commit", func() error {
		if _, err := r.create("txns", 2); err != nil {
			return err
		}
		return r.transact(id, true, topic, plain("txn", 0, 3))
	})
	c.add("transaction abort", func() error { return r.transact(id, false, topic, plain("txn", 3, 2)) })
	c.add("read committed", func() error {
		if err := r.transact(id, true, topic, plain("txn", 5, 2)); err != nil {
			return err
		}
		got, err := r.Fetch(r.ctx, topic, 0, 5, true)
		return First(err, r.same(got, slices.Concat(plain("txn", 0, 3), plain("txn", 5, 2))))
	})
	c.add("read uncommitted", func() error {
		got, err := r.Fetch(r.ctx, topic, 0, 7, false)
		return First(err, r.same(got, plain("txn", 0, 7)))
	})
	c.add("transaction offsets", func() error { return r.txnOffsets(id, topic) })
	c.add("transaction fenced", func() error { return r.fenced(id, topic) })
	return c
}

func (r *run) transact(id string, commit bool, topic string, records []Record) error {
	t, err := r.Transactor(r.ctx, id)
	if err != nil {
		return err
	}
	defer t.Close()
	return First(t.Begin(), t.Produce(r.ctx, topic, 0, records), t.End(r.ctx, commit))
}

// txnOffsets commits a group's offsets in a transaction, and aborts others.
func (r *run) txnOffsets(id, topic string) error {
	t, err := r.Transactor(r.ctx, id)
	if err != nil {
		return err
	}
	defer t.Close()
	group := r.topic("group-txn")
	step := func(offset int64, commit bool, want int64) error {
		err := First(
			t.Begin(),
			t.Produce(r.ctx, topic, 1, plain("offsets", 0, 1)),
			t.Offsets(r.ctx, group, topic, 0, offset),
			t.End(r.ctx, commit),
		)
		if err != nil {
			return fmt.Errorf("offset %d: %w", offset, err)
		}
		return eventually(func() error { return r.committedIs(group, topic, map[int32]int64{0: want}) })
	}
	return First(step(3, true, 3), step(5, false, 3), step(7, true, 7))
}

// fenced has a second producer of the same ID take over from a first.
func (r *run) fenced(id, topic string) error {
	old, err := r.Transactor(r.ctx, id)
	if err != nil {
		return err
	}
	defer old.Close()
	if err := First(old.Begin(), old.Produce(r.ctx, topic, 1, plain("old", 0, 1))); err != nil {
		return err
	}
	if err := r.transact(id, true, topic, plain("new", 7, 1)); err != nil {
		return err
	}
	err = old.Produce(r.ctx, topic, 1, plain("old", 1, 1))
	if err == nil {
		err = old.End(r.ctx, true)
	}
	return r.refused(err, 47, 90)
}
