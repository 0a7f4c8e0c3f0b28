package streaming

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// The headers of a frame.
const (
	// HeaderChunks holds the first and the last index: "0-17".
	HeaderChunks = "Tb-Chunks"
	// HeaderForm holds the number of the frame format, see internal/encoding/format.
	HeaderForm = "Tb-Form"
	// HeaderNonce identifies the Writer.
	HeaderNonce = "Tb-Nonce"
	// HeaderProof holds a value that only the executor of the call and its callers know, see [subjects.ChunkProof].
	HeaderProof = "Tb-Proof"
	// HeaderAfter is set only in frames that a Source returns: the next frame follows this stream sequence.
	HeaderAfter = "Tb-After"

	// headerExpected holds, in a live frame, the stream sequence of the frame before it.
	headerExpected = "Nats-Expected-Last-Subject-Sequence"
)

const (
	// overhead is the number of bytes that the encoding adds to the data of a chunk: kind and LF.
	overhead = 2
	// maxBody is the largest body of a frame in bytes. NATS advises against larger messages.
	maxBody = 8 << 20
	// maxIndex is the largest integer that every JSON parser reads exactly.
	maxIndex = 1<<53 - 1
)

// ErrCorrupt means that a frame is malformed.
var ErrCorrupt = errors.New("streaming: malformed frame")

// Run identifies one execution of a call by attempt and fence.
type Run struct {
	Attempt int
	Fence   uint64
}

// Compare returns -1 if r is older than o, +1 if it is newer, and 0 if they are equal. It compares the attempts first,
// then the fences.
func (r Run) Compare(o Run) int {
	return cmp.Or(cmp.Compare(r.Attempt, o.Attempt), cmp.Compare(r.Fence, o.Fence))
}

// Frame is a sequence of consecutive encoded chunks of one run. The zero Frame holds no chunks.
type Frame struct {
	first, end int64 // the indexes [first, end)
	after      uint64
	body       []byte
}

// ParseFrame reads a frame from the headers and the body of a message. The Frame keeps body. ParseFrame checks the
// number of chunks, not each chunk: a Reader does that when it yields the chunk. It is the inverse of Header and Body:
// without HeaderChunks and with an empty body it returns the zero Frame. The error is [ErrCorrupt] if the frame is
// malformed, and a [format.Error] if this build does not read its format.
func ParseFrame(header map[string][]string, body []byte) (Frame, error) {
	indexes := value(header, HeaderChunks)
	if indexes == "" && len(body) == 0 {
		return Frame{}, nil
	}
	written, _ := strconv.Atoi(value(header, HeaderForm)) // Toolbus 0.1 wrote no number
	if err := format.Frame.Check(written); err != nil && indexes != "" {
		return Frame{}, err
	}
	left, right, _ := strings.Cut(indexes, "-")
	first, okFirst := parseIndex(left)
	last, okLast := parseIndex(right)
	switch {
	case !okFirst || !okLast || last < first:
		return Frame{}, fmt.Errorf("%w: %s is %.60q", ErrCorrupt, HeaderChunks, indexes)
	case len(body) > maxBody:
		return Frame{}, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(body))
	case len(body) == 0 || body[len(body)-1] != '\n' || int64(bytes.Count(body, newline)) != last-first+1:
		return Frame{}, fmt.Errorf("%w: chunks %s do not match the body", ErrCorrupt, indexes)
	}
	return Frame{first: first, end: last + 1, after: parseAfter(header), body: body}, nil
}

// First returns the index of the first chunk.
func (f Frame) First() int64 { return f.first }

// Len returns the number of chunks.
func (f Frame) Len() int64 { return f.end - f.first }

// Body returns the encoded chunks. Do not change them.
func (f Frame) Body() []byte { return f.body }

// Kinds returns the number of chunks of each kind that the frame has.
func (f Frame) Kinds() map[envelope.ChunkKind]int64 {
	kinds := map[envelope.ChunkKind]int64{}
	for line := range bytes.Lines(f.body) {
		kinds[kindOf(line[0])]++
	}
	return kinds
}

// Header returns the headers that [ParseFrame] needs in addition to Body.
func (f Frame) Header() map[string][]string {
	if f.Len() == 0 {
		return map[string][]string{}
	}
	return map[string][]string{
		HeaderForm:   {strconv.Itoa(format.Frame.Current())},
		HeaderChunks: {f.indexes()},
		HeaderAfter:  {strconv.FormatUint(f.after, 10)},
	}
}

func (f Frame) indexes() string {
	return strconv.FormatInt(f.first, 10) + "-" + strconv.FormatInt(f.end-1, 10)
}

// has reports whether the frame holds the chunk at index.
func (f Frame) has(index int64) bool { return f.first <= index && index < f.end }

// skip returns the frame without the chunks before index, which it must hold.
func (f Frame) skip(index int64) Frame {
	for f.first < index {
		f.body = f.body[bytes.IndexByte(f.body, '\n')+1:]
		f.first++
	}
	return f
}

// limit returns the first chunks of the frame that fit into maxBytes, at least one.
func (f Frame) limit(maxBytes int) Frame {
	if len(f.body) <= maxBytes {
		return f
	}
	cut := bytes.LastIndexByte(f.body[:max(maxBytes, 0)], '\n') + 1
	if cut == 0 {
		cut = bytes.IndexByte(f.body, '\n') + 1
	}
	f.end -= int64(bytes.Count(f.body[cut:], newline))
	f.body = f.body[:cut:cut]
	return f
}

// pop removes the first chunk from the frame and returns it. The frame must not be empty.
func (f *Frame) pop() (envelope.ChunkKind, jsontext.Value, error) {
	line, rest, _ := bytes.Cut(f.body, newline)
	index := f.first
	f.body, f.first = rest, f.first+1
	if len(line) == 0 {
		return "", nil, fmt.Errorf("%w: chunk %d is empty", ErrCorrupt, index)
	}
	kind, data := kindOf(line[0]), jsontext.Value(line[1:len(line):len(line)])
	if kind == "" || !data.IsValid() {
		return "", nil, fmt.Errorf("%w: chunk %d is %.60q", ErrCorrupt, index, line)
	}
	return kind, data, nil
}

// appendChunk appends the encoding of one chunk to dst. After an error it returns dst unchanged.
func appendChunk(dst []byte, kind envelope.ChunkKind, data jsontext.Value) ([]byte, error) {
	letter := letterOf(kind)
	if letter == 0 {
		return dst, fmt.Errorf("%w: kind %.60q", ErrInvalid, kind)
	}
	out, err := jsontext.AppendFormat(append(dst, letter), data, jsontext.PreserveRawStrings(true))
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return append(out, '\n'), nil
}

// letters holds the letter of each kind, in the order of kinds.
const letters = "dpl"

var kinds = [...]envelope.ChunkKind{envelope.ChunkData, envelope.ChunkProgress, envelope.ChunkLog}

func letterOf(kind envelope.ChunkKind) byte {
	if i := slices.Index(kinds[:], kind); i >= 0 {
		return letters[i]
	}
	return 0
}

func kindOf(letter byte) envelope.ChunkKind {
	if i := strings.IndexByte(letters, letter); i >= 0 {
		return kinds[i]
	}
	return ""
}

// newline ends every chunk. Do not change it.
var newline = []byte{'\n'}

// parseIndex accepts only the canonical decimal form.
func parseIndex(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && n <= maxIndex && strconv.FormatInt(n, 10) == s
}

// parseAfter reads the hint about the place of the next frame. A missing or malformed hint is 0: any value is safe.
func parseAfter(header map[string][]string) uint64 {
	hint := cmp.Or(value(header, HeaderAfter), value(header, headerExpected))
	after, _ := strconv.ParseUint(hint, 10, 64)
	return after
}

func value(header map[string][]string, key string) string {
	if values := header[key]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// digest counts chunks and hashes their data: SHA-256 over each chunk's length (eight bytes, big
// endian) and bytes.
type digest struct {
	count int64
	hash  hash.Hash
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

func (d *digest) add(data []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(data)))
	d.hash.Write(length[:])
	d.hash.Write(data)
	d.count++
}

// addBody adds all chunks of a frame's body.
func (d *digest) addBody(body []byte) {
	for len(body) > 0 {
		end := bytes.IndexByte(body, '\n')
		d.add(body[1:end])
		body = body[end+1:]
	}
}

func (d *digest) chunks() envelope.Chunks {
	return envelope.Chunks{Count: d.count, Digest: hex.EncodeToString(d.hash.Sum(nil))}
}
