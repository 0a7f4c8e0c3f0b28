package main

import "github.com/seed-018f16cc/toolbus/program"

// fetching has no effect, whatever happens.
func failure(code, reason, message string) *program.Error {
	return &program.Error{Code: code, Message: message, Details: map[string]any{"reason": reason},
		Effect: program.EffectNone}
}

func fetchFailed(reason, message string) *program.Error {
	return failure("fetch_failed", reason, message)
}

// notFetchable is a failure of which trying again would only get another.
func notFetchable(reason, message string) *program.Error {
	return failure("not_fetchable", reason, message)
}

func parseFailed(reason, message string) error { return failure("parse_failed", reason, message) }

func invalidURL(reason, message string) error { return failure("invalid_url", reason, message) }

func timeout() error {
	return &program.Error{
		Code: "timeout", Message: "the time was up before the page was there", Effect: program.EffectNone,
	}
}
