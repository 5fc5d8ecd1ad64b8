"""How long what is kept: rows, then what days come to, then nothing; here, in the database and on the data branch."""
