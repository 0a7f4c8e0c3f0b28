//go:build formmember

package format

// Member is one more member of every attempt in an event, as a later release may add.
const Member = "added"

// behind makes this build open logs as the oldest build that test/mixed runs beside it, which is to keep the member.
const behind = EventNow - EventFormer
