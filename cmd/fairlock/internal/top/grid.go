package top

// grid says which of many rows are on the screen, and which one is chosen.
type grid struct {
	cursor, offset, rows, height int
}

// fit notes how many rows there are and how many can be seen. It keeps the chosen row in sight.
func (g *grid) fit(rows, height int) {
	g.rows, g.height = rows, max(1, height)
	g.cursor = max(0, min(g.cursor, rows-1))
	g.offset = max(0, min(g.offset, g.cursor, rows-g.height), g.cursor-g.height+1)
}

// move chooses another row by the name of a key. It reports whether the key is for that.
func (g *grid) move(key string) bool {
	switch key {
	case "up", "k":
		g.cursor--
	case "down", "j":
		g.cursor++
	case "pgup", "b":
		g.cursor -= g.height
	case "pgdown", "f", "space":
		g.cursor += g.height
	case "home", "g":
		g.cursor = 0
	case "end", "G":
		g.cursor = g.rows - 1
	default:
		return false
	}
	g.fit(g.rows, g.height)
	return true
}

// seen returns the rows on the screen, as a half-open range.
func (g *grid) seen() (from, to int) { return g.offset, min(g.rows, g.offset+g.height) }
