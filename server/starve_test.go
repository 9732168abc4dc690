package server

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStalledSendersStarveNobody: hundreds of peers that claim requests of all sizes
// and send a few bytes do not keep another's Metadata waiting.
func TestStalledSendersStarveNobody(t *testing.T) {
	addr := startNode(t, t.TempDir()).Addr()
	for _, claimed := range []uint32{4 << 20, 5300, 3000, 100, 30, 12} {
		for range 60 {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			frame := binary.BigEndian.AppendUint32(nil, claimed)
			frame = append(frame, 0, 3, 0, 9, 0, 0, 0, 1) // Metadata 9 and no more of it
			if _, err := nc.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := dial(t, addr)
	_ = c.nc.SetDeadline(time.Now().Add(pieceTimeout / 2))
	for range 20 {
		req := kmsg.NewPtrMetadataRequest()
		req.SetVersion(12)
		c.ask(req)
	}
}
