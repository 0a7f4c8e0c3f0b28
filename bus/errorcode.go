package bus

import (
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of JetStream that Toolbus handles. The package jetstream names some of them, too.
const (
	codeAccountStorage  jetstream.ErrorCode = 10002 // the account has reached its storage limit
	codePeers           jetstream.ErrorCode = 10005 // too few servers of the cluster can hold the stream
	CodeElecting        jetstream.ErrorCode = 10008 // JetStream is unavailable for now: no leader is elected
	CodeConsumerCreate  jetstream.ErrorCode = 10012 // the consumer cannot be created; its files may be damaged
	CodeResources       jetstream.ErrorCode = 10023 // the server has insufficient resources
	codeStreams         jetstream.ErrorCode = 10027 // the account has reached its limit of streams
	CodeNotFound        jetstream.ErrorCode = 10037 // the stream has no such message
	codeStorage         jetstream.ErrorCode = 10047 // the server or the account has too little storage left
	CodeMessageTooLarge jetstream.ErrorCode = 10054 // the message exceeds the max_msg_size of the stream
	CodeOtherStream     jetstream.ErrorCode = 10060 // the message reached another stream than the expected one
	CodeOverlap         jetstream.ErrorCode = 10065 // another stream already has one of the subjects
	CodeWrongLast       jetstream.ErrorCode = 10071 // the compare-and-set failed: another message was stored first
	CodeStoreFailed     jetstream.ErrorCode = 10077 // the stream has reached a limit and cannot store the message
	CodeHeaderTooLarge  jetstream.ErrorCode = 10097 // the headers of the message exceed 64 KiB
	CodeConsumerStore   jetstream.ErrorCode = 10104 // the server cannot open or write the files of the consumer
	codeOffline         jetstream.ErrorCode = 10118 // no server that holds the stream is there
	CodeAccountMaxBytes jetstream.ErrorCode = 10122 // max_bytes of the stream exceeds the limit of the account
	CodeInProcess       jetstream.ErrorCode = 10158 // a message with this id is being stored; its result is unknown
	CodeUnderWay        jetstream.ErrorCode = 10164 // a write with the same compare-and-set is being stored
	CodeTooManyRequests jetstream.ErrorCode = 10167 // the queue of the server is full
	codeOfflineReason   jetstream.ErrorCode = 10194 // the server cannot load the configuration of the stream
	CodeBatchUnknown    jetstream.ErrorCode = 10176 // the batch is incomplete here, but an earlier copy may be stored
)

// ErrorCode returns the error code of the [jetstream.APIError] that err is or wraps, and 0 for any other error.
func ErrorCode(err error) jetstream.ErrorCode {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.ErrorCode
	}
	return 0
}

// HasErrorCode reports whether err is or wraps a [jetstream.APIError] with one of the codes.
func HasErrorCode(err error, codes ...jetstream.ErrorCode) bool {
	code := ErrorCode(err)
	return code != 0 && slices.Contains(codes, code)
}

// IsStorageFull reports whether err means that a stream, its account, or the server has no room for a message, or that
// the queue of the server is full.
func IsStorageFull(err error) bool {
	return HasErrorCode(err, CodeResources, codeStorage, CodeStoreFailed, CodeAccountMaxBytes, CodeTooManyRequests)
}

// IsAnswered reports whether err is or wraps an error that the server answered with. Otherwise it is not known whether
// the server received the request.
func IsAnswered(err error) bool {
	_, ok := errors.AsType[*jetstream.APIError](err)
	return ok
}
