package subjects

// Instance returns the full name of an executor, <pool>/<name>.
func Instance(pool, name string) string { return pool + "/" + name }
