package webpage

import "github.com/seed-018f16cc/toolbus/program"

// fetching has no effect, whatever happens.
func failure(code, reason, message string) *program.Error {
	e := program.NoEffect(code, message)
	e.Details = map[string]any{"reason": reason}
	return e
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
