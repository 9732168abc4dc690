package server

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// volumeWait bounds how long an answer that only reads waits for the volume.
const volumeWait = 10 * time.Second

// request is one decoded request.
type request struct {
	head
	clientID string
	msg      kmsg.Request
	conn     *conn
	// principal is who asks, as it was when the request came.
	principal auth.Principal
	from      netip.Addr   // the client's address
	subject   *acl.Subject // what he may do; nil: everything. See may
	claim     *claim       // the memory its bytes take
	// asked is the version that the client itself has used, at a broker that passed it on.
	asked int16
	// waits is for how long quotas have the client wait; took is the time that counts for
	// them. That of an exempt request does not, nor does what its connection is told.
	waits     waits
	took      time.Duration
	exempt    bool
	charged   time.Duration // of took
	forwarded bool          // by another broker
	// refused is why nothing that the request asks for can be done. Every part of its
	// answer says so.
	refused error
	// turn is closed when all earlier requests of the connection are answered. Who
	// makes a large answer waits for it, so that a connection holds one at a time.
	turn    chan struct{}
	denials denials
	telling *telling     // the memory of the answer, where that is counted
	words   atomic.Int64 // bytes of the messages in it
	arrived time.Time
	unknown bool          // its version is not served, or it is no request
	hurry   chan struct{} // closed when others wait for what a fetch that waits has, nil if it has little
}

// reply answers a request: at once with resp, or with what wait returns. Neither
// means that the request has no answer. An error of wait ends the connection.
type reply struct {
	resp kmsg.Response
	wait func(context.Context) (kmsg.Response, error)
	// last is why nothing is read behind the request, and the connection ends with the answer.
	last error
}

func now(resp kmsg.Response) (reply, error) { return reply{resp: resp}, nil }

func later(wait func(context.Context) (kmsg.Response, error)) (reply, error) {
	return reply{wait: wait}, nil
}

// api is what is served of one key. start runs on the connection's reader, in the
// order of the wire: it does what must be in that order and may not wait for
// anything else. An error ends the connection.
type api struct {
	key      kmsg.Key
	min, max int16 // as told by ApiVersions
	works    int16 // lowest version that is answered; below it the connection is closed
	records  bool  // requests carry records: their bytes are held until answered
	inner    bool  // between brokers: served on the inter-broker listener alone
	wide     bool  // the answer may be long, whatever the request is: see widely
	forward  bool  // only the controller can do it; start minds request.refused
	access   access
	// malformed is what makes a request cost its connection, beyond what cannot be decoded.
	malformed func(kmsg.Request) error
	start     func(*Server, context.Context, *request) (reply, error)
}

// apis is everything that is served; ApiVersions tells it, in this order.
var apis []api

func init() { // not a literal: 18 reads the table it stands in
	apis = []api{
		produceAPI,
		fetchAPI,
		listOffsetsAPI,
		metadataAPI,
		offsetCommitAPI,
		offsetFetchAPI,
		findCoordinatorAPI,
		joinGroupAPI,
		heartbeatAPI,
		leaveGroupAPI,
		syncGroupAPI,
		describeGroupsAPI,
		listGroupsAPI,
		apiVersionsAPI,
		saslHandshakeAPI,
		saslAuthenticateAPI,
		createTopicsAPI,
		deleteTopicsAPI,
		createPartitionsAPI,
		deleteRecordsAPI,
		initProducerIDAPI,
		addPartitionsToTxnAPI,
		addOffsetsToTxnAPI,
		endTxnAPI,
		txnOffsetCommitAPI,
		offsetForLeaderEpochAPI,
		writeTxnMarkersAPI,
		describeACLsAPI,
		createACLsAPI,
		deleteACLsAPI,
		describeConfigsAPI,
		alterConfigsAPI,
		incrementalAlterConfigsAPI,
		listConfigResourcesAPI,
		alterReplicaLogDirsAPI,
		describeLogDirsAPI,
		createDelegationTokenAPI,
		renewDelegationTokenAPI,
		expireDelegationTokenAPI,
		describeDelegationTokenAPI,
		deleteGroupsAPI,
		electLeadersAPI,
		describeUserScramCredentialsAPI,
		alterUserScramCredentialsAPI,
		describeClientQuotasAPI,
		alterClientQuotasAPI,
		alterPartitionReassignmentsAPI,
		listPartitionReassignmentsAPI,
		offsetDeleteAPI,
		describeQuorumAPI,
		updateFeaturesAPI,
		describeClusterAPI,
		describeProducersAPI,
		unregisterBrokerAPI,
		describeTransactionsAPI,
		listTransactionsAPI,
		consumerGroupHeartbeatAPI,
		consumerGroupDescribeAPI,
		describeTopicPartitionsAPI,
		brokerRegistrationAPI,
		brokerHeartbeatAPI,
		allocateProducerIDsAPI,
	}
}

// apiFor returns what serves the key, or nil.
func apiFor(key int16) *api {
	for i := range apis {
		if int16(apis[i].key) == key {
			return &apis[i]
		}
	}
	return nil
}

// serves reports whether the version is answered.
func (a *api) serves(version int16) bool {
	return a != nil && version >= max(a.min, a.works) && version <= a.max
}

// serves reports whether the version is answered on that listener.
func (c *conn) serves(a *api, version int16) bool { return c.sees(a) && a.serves(version) }

// sees reports whether an API is there for those who connect to that listener.
func (c *conn) sees(a *api) bool {
	return a != nil && (!a.inner || c.listener.Name == c.s.cfg.InterBroker)
}
