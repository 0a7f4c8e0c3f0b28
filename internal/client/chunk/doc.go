// Package chunk hands the chunks of a streamed call to its caller while the call runs.
//
// A [Stream] gets live chunks over a subscription. It asks dispatchers for those that did not come: from before the
// caller listened, or while there was no connection. The caller gets all chunks of a run, in order, without gaps and
// duplicates. Start reading at [Follow].
package chunk
