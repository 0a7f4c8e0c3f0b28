package bustest

import (
	"os"
)

// Saved returns a copy of what the server has stored, for restored. The server restarts.
func (b *Bus) Saved() string {
	b.T.Helper()
	b.Srv.Stop()
	dir := b.T.TempDir()
	if err := os.CopyFS(dir, os.DirFS(b.Srv.Dir())); err != nil {
		b.T.Fatal(err)
	}
	b.Srv.Restart()
	return dir
}

// Restored lets the server lose what it has stored since, as a power cut may. It restarts.
func (b *Bus) Restored(dir string) {
	b.T.Helper()
	b.Srv.Stop()
	if err := os.RemoveAll(b.Srv.Dir()); err != nil {
		b.T.Fatal(err)
	}
	if err := os.CopyFS(b.Srv.Dir(), os.DirFS(dir)); err != nil {
		b.T.Fatal(err)
	}
	b.Srv.Restart()
}
