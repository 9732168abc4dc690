package classic

import (
	"encoding/binary"
	"errors"

	"kaas.dev/kaas/projections/groups"
)

// consumerType is the protocol type of consumers: those whose metadata can be read.
const consumerType = "consumer"

// distinct returns the protocols without those whose name came before.
func distinct(ps []groups.Protocol) []groups.Protocol {
	seen := make(map[string]bool, len(ps))
	var out []groups.Protocol
	for _, p := range ps {
		if !seen[p.Name] {
			out = append(out, p)
		}
		seen[p.Name] = true
	}
	return out
}

// supports reports that somebody with these protocols can be in the group: at least one
// is supported by every member.
func (g *Group) supports(protocolType string, ps []groups.Protocol) bool {
	if len(g.members) == 0 {
		return protocolType != "" && len(ps) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	for _, p := range ps {
		if g.supported[p.Name] == len(g.members) {
			return true
		}
	}
	return false
}

// elect chooses the protocol: of those that all members support, each votes for the one
// it likes best. Equal votes do not change the group's protocol.
func (g *Group) elect() string {
	votes := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.Protocols {
			if g.supported[p.Name] == len(g.members) {
				votes[p.Name]++
				break
			}
		}
	}
	best, most := "", 0
	for _, p := range g.members[0].Protocols { // every candidate is among them
		n := votes[p.Name]
		if n > most || n > 0 && n == most && p.Name == g.protocol {
			best, most = p.Name, n
		}
	}
	return best
}

// subscriptions are the topics that the members of a consumer group subscribe to, nil if
// they cannot be known.
func (g *Group) subscriptions() map[string]bool {
	if g.protocolType != consumerType {
		return nil
	}
	all := map[string]bool{}
	for _, m := range g.members {
		topics, err := subscribed(m.metadata(g.protocol))
		if err != nil {
			return nil
		}
		for t := range topics {
			all[t] = true
		}
	}
	return all
}

var errMetadata = errors.New("consumer metadata ends too soon")

// subscribed reads the topics of a consumer's metadata: a version (int16), the number of
// topics (int32), and each as its length (int16) and its name. All versions begin so.
func subscribed(b []byte) (map[string]bool, error) {
	if len(b) < 6 {
		return nil, errMetadata
	}
	n, b := int32(binary.BigEndian.Uint32(b[2:])), b[6:]
	topics := map[string]bool{}
	for ; n > 0; n-- {
		if len(b) < 2 {
			return nil, errMetadata
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		if size < 0 || len(b) < 2+size {
			return nil, errMetadata
		}
		topics[string(b[2:2+size])] = true
		b = b[2+size:]
	}
	return topics, nil
}
