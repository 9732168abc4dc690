package scenario

import "fmt"

// topics makes those that data uses.
func (r *run) topics() (c chain) {
	c.add("create topic", func() error {
		if _, err := r.create("data", len(Codecs)); err != nil {
			return err
		}
		_, err := r.create("more", 3)
		return err
	})
	c.add("create topic again", func() error {
		_, err := r.create("data", len(Codecs))
		return r.refused(err, 36)
	})
	return c
}

// data writes and reads records of every kind.
func (r *run) data() []chain {
	data, more := r.topic("data"), r.topic("more")
	chains := make([]chain, len(Codecs)+4)
	for i, codec := range Codecs {
		chains[i].add("produce "+codec, func() error {
			return r.roundTrip(Target{Topic: data, Partition: int32(i), Codec: codec}, Sample(r.Name, codec))
		})
	}
	chains[len(Codecs)].add("idempotent", func() error {
		return r.roundTrip(Target{Topic: more, Partition: 0, Codec: "none", Idempotent: true}, plain("idempotent", 0, 100))
	})
	chains[len(Codecs)+1].add("large record", func() error {
		large := plain("large", 0, 1)
		large[0].Value = noise(900_000)
		return r.roundTrip(Target{Topic: more, Partition: 1, Codec: "none"}, large)
	})
	chains[len(Codecs)+2].add("too large record", func() error {
		small, err := r.create("small", 1, "max.message.bytes", "1000")
		if err != nil {
			return err
		}
		large := plain("large", 0, 1)
		large[0].Value = noise(2000)
		err = r.Produce(r.ctx, Target{Topic: small, Codec: "none"}, large)
		return First(r.refused(err, 10), r.roundTrip(Target{Topic: small, Codec: "none"}, plain("small", 0, 1)))
	})
	chains[len(Codecs)+3].add("empty topic", func() error {
		got, err := r.Fetch(r.ctx, more, 2, 0, false)
		return First(err, r.same(got, nil), r.offsetIs(more, 2, Earliest, 0), r.offsetIs(more, 2, Latest, 0))
	})
	return chains
}

// roundTrip writes to an empty partition, and reads.
func (r *run) roundTrip(to Target, records []Record) error {
	if err := r.Produce(r.ctx, to, records); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	got, err := r.Fetch(r.ctx, to.Topic, to.Partition, len(records), false)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return r.same(got, records)
}

func (r *run) offsetIs(topic string, partition int32, at, want int64) error {
	got, err := r.Offset(r.ctx, topic, partition, at)
	if err != nil {
		return fmt.Errorf("offset at %d: %w", at, err)
	}
	if got != want {
		return fmt.Errorf("offset at %d is %d, want %d", at, got, want)
	}
	return nil
}
