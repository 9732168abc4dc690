package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var wireScripts = []script{
	{"versions", versionsScript},
	{"connections", connectionsScript},
}

func versionsScript(s *side) {
	s.record("epochs of what is new", -1, 0, &node{fields: []field{
		{"LeaderEpoch", leaf("%d", s.symbols.firstEpoch)}, {"MemberEpoch", leaf("%d", s.symbols.firstMember)},
	}})
	each(s, "a client's name", func(r *kmsg.ApiVersionsRequest) {
		r.ClientSoftwareName, r.ClientSoftwareVersion = "diff", "1.0"
	})
	for _, name := range []string{"", "-", "a-", "-a", "a b", "a.b", "ä", "a_b", string(bytes.Repeat([]byte("a"), 300))} {
		from(s, 3, fmt.Sprintf("the name %.20q", name), func(r *kmsg.ApiVersionsRequest) {
			r.ClientSoftwareName, r.ClientSoftwareVersion = name, "1"
		})
		from(s, 3, fmt.Sprintf("the version %.20q", name), func(r *kmsg.ApiVersionsRequest) {
			r.ClientSoftwareName, r.ClientSoftwareVersion = "a", name
		})
	}
	for _, whom := range []struct {
		label   string
		cluster *string
		node    int32
	}{
		{"this node", &s.cluster, nodeID},
		{"another node", &s.cluster, nodeID + 1},
		{"another cluster", ptr("another"), nodeID},
		{"no node", &s.cluster, -1},
		{"no cluster", nil, nodeID},
		{"a negative node", &s.cluster, -2},
		{"an empty cluster", ptr(""), nodeID},
	} {
		from(s, 5, whom.label, func(r *kmsg.ApiVersionsRequest) {
			r.ClientSoftwareName, r.ClientSoftwareVersion, r.ClusterID, r.NodeID = "a", "1", whom.cluster, whom.node
		})
	}
}

// connectionsScript is about what is not well formed: each on a connection of its own.
func connectionsScript(s *side) {
	frame := func(key, version int16, rest ...byte) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		b = append(b, 0, 0, 0, 9)
		b = append(b, rest...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	client := []byte{0, 1, 'c'}
	metadata := request(1, func(r *kmsg.MetadataRequest) { r.Topics = metadataTopics() })
	good := func(req kmsg.Request) []byte {
		return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, 9)
	}
	cut := func(b []byte, n int) []byte {
		b = bytes.Clone(b[:len(b)-n])
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		return b
	}
	more := func(b []byte, add ...byte) []byte {
		b = append(bytes.Clone(b), add...)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		return b
	}
	versions4 := request(4, func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareName, r.ClientSoftwareVersion = "a", "1" })
	for _, c := range []struct {
		label string
		bytes []byte
	}{
		{"an unknown key", frame(999, 0, client...)},
		{"a negative key", frame(-1, 0, client...)},
		{"a key that was taken away", frame(4, 0, client...)},
		{"a controller's key", frame(52, 0, client...)},
		{"a version that is too new", frame(3, 99, client...)},
		{"a negative version", frame(3, -1, client...)},
		{"a version that was taken away", frame(1, 3, client...)},
		{"ApiVersions that is too new", frame(18, 99, append(bytes.Clone(client), 0)...)},
		{"ApiVersions that is too new, with a body", frame(18, 99, append(bytes.Clone(client), 0, 2, 'a', 2, '1', 0)...)},
		{"a negative ApiVersions", frame(18, -1, client...)},
		{"nothing", []byte{0, 0, 0, 0}},
		{"half a head", []byte{0, 0, 0, 4, 0, 3, 0, 1}},
		{"no client ID", frame(3, 1)},
		{"a client ID that ends early", frame(3, 1, 0, 9, 'a')},
		{"a null client ID", frame(3, 1, 0xff, 0xff, 0, 0, 0, 0)},
		{"a negative client ID", frame(3, 1, 0xff, 0xfe, 0, 0, 0, 0)},
		{"no body", frame(3, 1, client...)},
		{"a body that ends early", cut(good(metadata), 2)},
		{"a byte too many", more(good(metadata), 7)},
		{"many bytes too many", more(good(metadata), bytes.Repeat([]byte{7}, 100)...)},
		{"an array that is longer than the request", frame(3, 1, append(bytes.Clone(client), 0x7f, 0xff, 0xff, 0xff)...)},
		{"a negative array", frame(3, 1, append(bytes.Clone(client), 0xff, 0xff, 0xff, 0xfe)...)},
		{"a flexible body that ends early", cut(good(versions4), 1)},
		{"a byte too many of a flexible body", more(good(versions4), 0)},
		{"a tag that is not known", more(cut(good(versions4), 1), 1, 99, 2, 'x', 'y')},
		{"a tag that ends early", more(cut(good(versions4), 1), 1, 99, 9, 'x')},
		{"a negative size", []byte{0xff, 0xff, 0xff, 0xff, 0, 0}},
		{"a size that is too large", []byte{0x7f, 0xff, 0xff, 0xff, 0, 0}},
		{"the start of an HTTP request", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"the start of a TLS handshake", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}},
		{"Produce 0", frame(0, 0, client...)},
		{"Produce 2", frame(0, 2, client...)},
	} {
		s.raw(c.label, c.bytes)
	}
	conn := s.dial()
	for i := range 40 { // answered in order
		conn.send(request(9, func(r *kmsg.MetadataRequest) {
			r.Topics, r.AllowAutoTopicCreation = metadataTopics(fmt.Sprint("none-", i)), false
		}))
	}
	for i := range 40 {
		conn.answer(fmt.Sprint("one of many, ", i))
	}
}

// raw sends bytes on a connection of their own and takes down whether they are answered.
func (s *side) raw(label string, b []byte) {
	c := &conn{side: s}
	defer c.close()
	if err := c.write(b); err != nil {
		s.record(label, -1, 0, leaf("not sent: %v", err))
		return
	}
	if _, err := c.read(); err != nil {
		s.record(label, -1, 0, outcome(err))
		return
	}
	s.record(label, -1, 0, leaf("answered"))
}
