package jscode

import (
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// What the server says. The client library names some of these, too.
const (
	AccountStorage  jetstream.ErrorCode = 10002 // the account may not store so much
	Peers           jetstream.ErrorCode = 10005 // not enough servers of the cluster can hold it
	Electing        jetstream.ErrorCode = 10008 // no leader is known
	ConsumerCreate  jetstream.ErrorCode = 10012 // the consumer cannot be made; its files may be damaged
	Resources       jetstream.ErrorCode = 10023 // the server has no room
	Streams         jetstream.ErrorCode = 10027 // the account has as many streams as it may have
	NotFound        jetstream.ErrorCode = 10037 // there is no such message
	Storage         jetstream.ErrorCode = 10047 // the server, or the account, may not store so much
	MessageTooLarge jetstream.ErrorCode = 10054 // larger than the stream takes
	OtherStream     jetstream.ErrorCode = 10060 // it went to another stream than was expected
	Overlap         jetstream.ErrorCode = 10065 // another stream takes the subjects
	WrongLast       jetstream.ErrorCode = 10071 // the compare-and-set failed: somebody was there first
	StoreFailed     jetstream.ErrorCode = 10077 // the stream has reached a limit
	HeaderTooLarge  jetstream.ErrorCode = 10097 // larger than the server takes
	ConsumerStore   jetstream.ErrorCode = 10104 // the files of a consumer cannot be opened or written
	AccountMaxBytes jetstream.ErrorCode = 10122 // the account may not have a stream so large
	InProcess       jetstream.ErrorCode = 10158 // this message id is just being stored: stored yet or not
	UnderWay        jetstream.ErrorCode = 10164 // another write with the same compare-and-set is being stored
	TooManyRequests jetstream.ErrorCode = 10167 // more wait than the server takes
	BatchUnknown    jetstream.ErrorCode = 10176 // the batch may have been stored, and this have come twice
)

// Of returns the number of a server's answer that err is, or wraps; 0 where it is none.
func Of(err error) jetstream.ErrorCode {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.ErrorCode
	}
	return 0
}

// Is reports whether err is, or wraps, an answer of the server with one of these numbers.
func Is(err error, codes ...jetstream.ErrorCode) bool {
	code := Of(err)
	return code != 0 && slices.Contains(codes, code)
}

// NoRoom reports whether err says that a stream, its account, the server or its queue takes no more.
func NoRoom(err error) bool {
	return Is(err, Resources, Storage, StoreFailed, AccountMaxBytes, TooManyRequests)
}

// Answered reports whether err is an answer of the server at all, and not the lack of one.
func Answered(err error) bool {
	_, ok := errors.AsType[*jetstream.APIError](err)
	return ok
}
