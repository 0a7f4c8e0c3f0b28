package subjects

const seekPrefix = "tb.ctl.seek."

// SeekWildcard is what executors subscribe to in order to say what they run.
const SeekWildcard = seekPrefix + "*"

// Seek returns the subject on which executors are asked who of them runs an attempt of a call.
func Seek(id string) string { return seekPrefix + Token(id) }

// ParseSeek is the inverse of [Seek].
func ParseSeek(subject string) (id string, err error) {
	err = parse(subject, seekPrefix, &id)
	return id, err
}
