// Package quota measures what clients use and says for how long they have to be slowed
// down, as Apache Kafka does. It knows nothing of connections; who asks mutes them.
//
// # Whose quota
//
// A client is a user and a client ID. Of the quotas that fit it the first of these holds:
//
//	user and client ID
//	user and default client ID
//	user                              shared by all of the user's clients
//	default user and client ID
//	default user and default client ID
//	default user                      for each user by himself
//	client ID                         shared by all users of the ID
//	default client ID                 for each client ID by itself
//
// Where the quota names a default, each name has it by itself. New connections have quotas by
// address. Quotas are per broker: a client that uses three brokers may use three times as much.
//
// # How it is measured
//
// What is used is summed up in samples of a second (quota.window.size.seconds), of which the
// newest ones (quota.window.num, 11) make a rate; before there are as many, the time that is
// missing counts as one of silence. Where the rate is above the quota, its user waits until
// it would be below, were nothing used meanwhile. Partitions made and deleted (KIP-599) have
// a bucket instead, which holds as many seconds' worth and may be overdrawn once.
//
// Taken alone, the rate lets a client that was silent use ten seconds' worth at once, then
// nothing for as long, and so on for ever: in half a minute it may be a sixth above its quota
// or a quarter below. So bytes are spread, too: what goes beyond one sample's worth waits
// until the quota has made room for it. Whichever of the two waits is longer counts.
//
// # Invariants
//
//   - Where there are no quotas nothing is measured, locked or allocated.
//   - What was used is kept for as long as it counts; a client that comes back later is as
//     good as new, so what is kept of it is dropped.
//   - At most maxMeasures are told apart in each kind of quota. Further clients share one:
//     client IDs cost nothing, and must not cost memory either.
//
// Call order: [New]; then [Manager.Produce] and the like from any goroutine, each with the
// quotas of the newest view.
package quota
