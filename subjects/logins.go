package subjects

// The bucket of the sealed logins at MCP servers. Executors reach it by requests to dispatchers, see [OpLogin].
const (
	LoginsStream = "KV_logins"
	LoginsAll    = loginsPrefix + ">"

	loginsPrefix = "$KV.logins."
)

// loginID is the length of the id of a login.
const loginID = 32

// ValidLogin reports whether id is the id of a login: 32 lower-case letters and digits.
func ValidLogin(id string) bool {
	for _, c := range id {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(id) == loginID
}

// Login returns the subject of the entry of a login, whose id is valid.
func Login(id string) string { return tokens(loginsPrefix, id) }
