"""Other systems that turnwise's episodes can be played in; each is imported only when it is used."""
