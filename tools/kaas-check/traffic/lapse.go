package traffic

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kaas.dev/kaas/internal/sleep"
)

// lapseAfter is how long what lapses may be silent.
const lapseAfter = 300 * time.Millisecond

// LapseSets are the settings of brokers for Lapse: such sessions may be asked for, and one shard
// of groups and one of transactions has whatever there is of them.
func LapseSets() []string {
	return append(TxnSets(), fmt.Sprintf("group.min.session.timeout.ms=%d", lapseAfter.Milliseconds()), "group.initial.rebalance.delay.ms=0",
		"offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")
}

// Lapse begins a member's session and a transaction that nobody goes on with, under a name that
// nobody has had before, and returns when both have ended. Whatever else was over by then
// would have been ended, too.
func (e *Env) Lapse(ctx context.Context, name string) error {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.JoinGroup), 3) // later ones ask twice, and the second may come too late
	cl, err := e.client(kgo.MaxVersions(v))
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := joinOnce(ctx, cl, name, lapseAfter); err != nil {
		return err
	}
	if err := openTxn(ctx, cl, name); err != nil {
		return err
	}
	adm, state := kadm.NewClient(cl), ""
	for sleep.For(ctx, loosely) {
		groups, err := adm.DescribeGroups(ctx, name)
		if err != nil || groups[name].Err != nil {
			continue
		}
		txns, err := adm.DescribeTransactions(ctx, name)
		if err != nil || txns[name].Err != nil {
			continue
		}
		state = fmt.Sprintf("the group is %s, the transaction %s", groups[name].State, txns[name].State)
		if len(groups[name].Members) == 0 && txns[name].State == "CompleteAbort" {
			return nil
		}
	}
	return fmt.Errorf("%s does not lapse: %s: %w", name, state, ctx.Err())
}

// openTxn begins a transaction, of a group's offsets.
func openTxn(ctx context.Context, cl *kgo.Client, name string) error {
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis = &name, int32(lapseAfter.Milliseconds())
	init.ProducerID, init.ProducerEpoch = -1, -1
	who, err := init.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(who.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("producer of %s: %w", name, err)
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = name, who.ProducerID, who.ProducerEpoch, name
	resp, err := add.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("begin the transaction of %s: %w", name, err)
	}
	return nil
}
