package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/server/clientprops"
)

// target is the server and topic of a load.
type target struct {
	Bootstrap  string
	Topic      string
	Partitions int32             // of a topic that is made
	Configs    map[string]string // of a topic that is made
	Command    string            // file of properties that say how to reach the server, or empty
	PID        int               // of the server, or 0

	progress *progress
}

// adminTime bounds what is done before and after a load.
const adminTime = 60 * time.Second

func (t *target) client(opts ...kgo.Opt) (*kgo.Client, error) {
	how, err := t.reach()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(slices.Concat([]kgo.Opt{kgo.SeedBrokers(t.Bootstrap), kgo.ClientID("kaas-bench")}, how, opts)...)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", t.Bootstrap, err)
	}
	return cl, nil
}

// reach is how the server is reached, if that is said.
func (t *target) reach() ([]kgo.Opt, error) {
	if t.Command == "" {
		return nil, nil
	}
	props, err := clientprops.Load(t.Command)
	if err != nil {
		return nil, fmt.Errorf("--command-config: %w", err)
	}
	opts, err := props.Options()
	if err != nil {
		return nil, fmt.Errorf("--command-config: %s: %w", t.Command, err)
	}
	return opts, nil
}

func (t *target) admin(ctx context.Context, do func(context.Context, *kadm.Client) error) error {
	cl, err := t.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, adminTime)
	defer cancel()
	return do(ctx, kadm.NewClient(cl))
}

// ensureTopic makes the topic unless it is there, and waits for its leaders.
func (t *target) ensureTopic(ctx context.Context) error {
	return t.admin(ctx, func(ctx context.Context, adm *kadm.Client) error {
		configs := map[string]*string{}
		for k, v := range t.Configs {
			configs[k] = &v
		}
		_, err := adm.CreateTopic(ctx, t.Partitions, 1, configs, t.Topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("make topic %s: %w", t.Topic, err)
		}
		return t.awaitLeaders(ctx, adm)
	})
}

// awaitLeaders asks until every partition has told its end.
func (t *target) awaitLeaders(ctx context.Context, adm *kadm.Client) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := t.ends(ctx, adm)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s has no leaders after %v: %w", t.Topic, adminTime, err)
		case <-tick.C:
		}
	}
}

// ends are the end offsets by partition.
func (t *target) ends(ctx context.Context, adm *kadm.Client) (map[int32]int64, error) {
	listed, err := adm.ListEndOffsets(ctx, t.Topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("ends of topic %s: %w", t.Topic, err)
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	if len(ends) == 0 {
		return nil, fmt.Errorf("topic %s has no partitions", t.Topic)
	}
	return ends, nil
}

func (t *target) deleteTopic(ctx context.Context) error {
	return t.admin(ctx, func(ctx context.Context, adm *kadm.Client) error {
		if _, err := adm.DeleteTopic(ctx, t.Topic); err != nil {
			return fmt.Errorf("delete topic %s: %w", t.Topic, err)
		}
		return nil
	})
}
