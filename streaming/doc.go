// Package streaming carries the chunks of a running call, and payloads too large to travel inline.
//
// # Frames
//
// A run is one execution of a call: one attempt under one fence. Every run has a subject of its
// own in a JetStream stream. A frame is one message on it and holds one or more consecutive
// chunks:
//
//	Tb-Chunks: <first>-<last>                          the indexes, decimal, from 0 in every run
//	Tb-Nonce: <token>                                  which Writer wrote it
//	Nats-Expected-Last-Subject-Sequence: <sequence>    of the frame before, 0 for the first
//
//	frame = chunk { chunk }
//	chunk = kind json LF         kind is d (data), p (progress) or l (log); json has no white space
//
// The digest of a run is the SHA-256 over, for each chunk, the length of its json (eight bytes, big
// endian) and the json.
//
// One publish serves both kinds of reader: those that subscribe to the subject see the frame at once, and the
// stream keeps it for those that ask by index. So a live reader may see a frame twice (the Writer could
// not know that it was stored) and may miss some; it never sees frame n+1 before frame n is stored.
//
// # Writing
//
// A [Writer] has one frame on its way at a time; chunks emitted meanwhile form the next one. Each
// frame is appended by compare-and-set on the sequence of the one before, so frames are in order,
// once each, whatever happens to acknowledgements. Only the window of the Writer slows a tool.
//
// # Reading
//
// A [Reader] yields the chunks of a run strictly in order, with neither gap nor duplicate, from
// live frames where it can and from a [Source] where it must. A slow reader keeps a bounded
// number of bytes. A chunk with another fence than the one before it starts at index 0 and voids
// all chunks before: the call was run again. While a call runs, fences only grow; its outcome may
// name a lower one than was seen, and that one is true.
//
//	r := streaming.NewReader(source, streaming.ReaderOptions{})
//	nc.Subscribe(subject, func(m *nats.Msg) { r.Offer(runOf(m.Subject), m.Header, m.Data) })
//	… r.Finish(run, outcome.Provenance.Chunks) when the outcome is known, r.Resync() after a reconnect
//	for chunk, err := r.Next(ctx); err == nil; chunk, err = r.Next(ctx) { … }
//
// # Payloads
//
// [Payloads] is the claim-check: content goes into a stream under its SHA-256, the message carries
// the reference.
package streaming
