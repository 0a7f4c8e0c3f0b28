package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"
)

// keptMessage is a message of the list of kept calls: a step, which has the calls with events of the log from one
// sequence through another, or a slot, whose from is 0.
type keptMessage struct {
	number        uint64 // of the step, or of the newest step when the slot was written
	from, through uint64
	at            time.Time // when the server stored the event at through; zero if that is not known
	ids           []keptRecord
}

type keptRecord struct {
	id keptID
	newest
}

// A message begins with its form, and ends with the first bytes of the SHA-256 of all before. Numbers are big-endian.
const (
	keptForm   = "tbk1"
	keptHeader = len(keptForm) + 4*8
	keptSize   = 16 + 4 + 4 // of a record
	keptSum    = 8
)

var errKeptForm = errors.New("a message of the list of kept calls is damaged, or of another build")

func (m keptMessage) encode() []byte {
	b := make([]byte, 0, keptHeader+len(m.ids)*keptSize+keptSum)
	b = append(b, keptForm...)
	at := int64(0)
	if !m.at.IsZero() {
		at = m.at.UnixNano()
	}
	for _, n := range [...]uint64{m.number, m.from, m.through, uint64(at)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, r := range m.ids {
		b = append(b, r.id[:]...)
		b = binary.BigEndian.AppendUint32(b, r.expires)
		b = binary.BigEndian.AppendUint32(b, r.seq)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:keptSum]...)
}

func decodeKept(data []byte) (m keptMessage, err error) {
	end := len(data) - keptSum
	if end < keptHeader || string(data[:len(keptForm)]) != keptForm || (end-keptHeader)%keptSize != 0 {
		return m, errKeptForm
	}
	if sum := sha256.Sum256(data[:end]); string(sum[:keptSum]) != string(data[end:]) {
		return m, errKeptForm
	}
	var n [4]uint64
	for i := range n {
		n[i] = binary.BigEndian.Uint64(data[len(keptForm)+8*i:])
	}
	m = keptMessage{number: n[0], from: n[1], through: n[2]}
	if n[3] != 0 {
		m.at = time.Unix(0, int64(n[3]))
	}
	m.ids = make([]keptRecord, 0, (end-keptHeader)/keptSize)
	for b := data[keptHeader:end]; len(b) > 0; b = b[keptSize:] {
		m.ids = append(m.ids, keptRecord{keptID(b[:16]),
			newest{binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint32(b[20:])}})
	}
	return m, nil
}
