package subjects

// Followed are the filters of those who follow the call log: admissions and decisions.
func Followed() []string {
	return []string{callsPrefix + "*.*.*." + KindRequest + ".>", CallsDecided}
}

// The stream of claim-checked payloads: `tb.payload.<sha256>.<part>`.
const (
	PayloadsStream = "PAYLOADS"
	PayloadsPrefix = "tb.payload"
	PayloadsAll    = PayloadsPrefix + ".>"
)
