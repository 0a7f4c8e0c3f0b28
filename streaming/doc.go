// Package streaming carries the chunks of a running call, and payloads too large to travel inline.
//
// # Frames
//
// A run is one execution of a call: one attempt with one fence. Each run has its own subject in a JetStream stream. A
// frame is one message on it and holds one or more consecutive chunks:
//
//	Tb-Chunks: <first>-<last>                          the indexes, decimal, from 0 in every run
//	Tb-Nonce: <token>                                  which Writer wrote it
//	Nats-Expected-Last-Subject-Sequence: <sequence>    of the frame before, 0 for the first
//
//	frame = chunk { chunk }
//	chunk = kind json LF         kind is d (data), p (progress) or l (log); json has no white space
//
// The digest of a run is the SHA-256 of the concatenation, for each chunk, of the length of its json (eight bytes, big
// endian) and the json.
//
// One publish serves both kinds of readers: subscribers of the subject receive the frame at once, and the stream keeps
// it for readers that ask by index. A subscriber may receive a frame twice, because a Writer without an acknowledgement
// sends it again, and may miss frames. It never receives frame n+1 before frame n is stored.
//
// # Writing
//
// A [Writer] sends one frame at a time. Chunks that are emitted until its acknowledgement form the next frame. Each
// frame is appended by compare-and-set on the sequence of the frame before, so the stream holds each frame once and in
// order, even if acknowledgements are lost. A tool blocks only while the window of the Writer is full.
//
// # Reading
//
// A [Reader] yields the chunks of a run in order, without gaps and duplicates. It uses live frames, and fetches missing
// ones from a [Source]. It buffers a bounded number of bytes. If a chunk has another fence than the chunk before it,
// the call was run again: the chunk has index 0, and all chunks before it are void. While a call runs, fences only
// grow. Its outcome may name a lower fence than the last one seen; then the chunks with that fence are the valid ones.
//
//	r := streaming.NewReader(source, streaming.ReaderOptions{})
//	nc.Subscribe(subject, func(m *nats.Msg) { r.Offer(runOf(m.Subject), m.Header, m.Data) })
//	… r.Finish(run, outcome.Provenance.Chunks) when the outcome is known, r.Resync() after a reconnect
//	for chunk, err := r.Next(ctx); err == nil; chunk, err = r.Next(ctx) { … }
//
// # Payloads
//
// [Payloads] implements the claim-check pattern: it stores content in a stream under its SHA-256, and the message
// carries a reference to it.
//
// Start reading at writer.go and reader.go.
package streaming
