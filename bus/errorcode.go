package bus

import (
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// What the server says. The client library names some of these, too.
const (
	CodeAccountStorage  jetstream.ErrorCode = 10002 // the account may not store so much
	CodePeers           jetstream.ErrorCode = 10005 // not enough servers of the cluster can hold it
	CodeElecting        jetstream.ErrorCode = 10008 // no leader is known
	CodeConsumerCreate  jetstream.ErrorCode = 10012 // the consumer cannot be made; its files may be damaged
	CodeResources       jetstream.ErrorCode = 10023 // the server has no room
	CodeStreams         jetstream.ErrorCode = 10027 // the account has as many streams as it may have
	CodeNotFound        jetstream.ErrorCode = 10037 // there is no such message
	CodeStorage         jetstream.ErrorCode = 10047 // the server, or the account, may not store so much
	CodeMessageTooLarge jetstream.ErrorCode = 10054 // larger than the stream takes
	CodeOtherStream     jetstream.ErrorCode = 10060 // it went to another stream than was expected
	CodeOverlap         jetstream.ErrorCode = 10065 // another stream takes the subjects
	CodeWrongLast       jetstream.ErrorCode = 10071 // the compare-and-set failed: somebody was there first
	CodeStoreFailed     jetstream.ErrorCode = 10077 // the stream has reached a limit
	CodeHeaderTooLarge  jetstream.ErrorCode = 10097 // larger than the server takes
	CodeConsumerStore   jetstream.ErrorCode = 10104 // the files of a consumer cannot be opened or written
	CodeAccountMaxBytes jetstream.ErrorCode = 10122 // the account may not have a stream so large
	CodeInProcess       jetstream.ErrorCode = 10158 // this message id is just being stored: stored yet or not
	CodeUnderWay        jetstream.ErrorCode = 10164 // another write with the same compare-and-set is being stored
	CodeTooManyRequests jetstream.ErrorCode = 10167 // more wait than the server takes
	CodeBatchUnknown    jetstream.ErrorCode = 10176 // the batch may have been stored, and this have come twice
)

// ErrorCode returns the number of a server's answer that err is, or wraps; 0 where it is none.
func ErrorCode(err error) jetstream.ErrorCode {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.ErrorCode
	}
	return 0
}

// HasErrorCode reports whether err is, or wraps, an answer of the server with one of these numbers.
func HasErrorCode(err error, codes ...jetstream.ErrorCode) bool {
	code := ErrorCode(err)
	return code != 0 && slices.Contains(codes, code)
}

// IsStorageFull reports whether err says that a stream, its account, the server or its queue takes no more.
func IsStorageFull(err error) bool {
	return HasErrorCode(err, CodeResources, CodeStorage, CodeStoreFailed, CodeAccountMaxBytes, CodeTooManyRequests)
}

// IsAnswered reports whether err is an answer of the server at all, and not the lack of one.
func IsAnswered(err error) bool {
	_, ok := errors.AsType[*jetstream.APIError](err)
	return ok
}
